"""The generated reference has every key, command, option and public name."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from devmem.config import workflow_schema
from devmem.plugins import registry
from tests.cli.conftest import COMMANDS, options_of
from tools.site.adapters import adapters, adapters_page, public_definitions
from tools.site.names import PACKAGES, package_page, public_names
from tools.site.reference import commands_page, keys_page


@pytest.fixture(scope="module")
def commands() -> dict[str, str]:
    parts = re.split(r"^## devmem ?", commands_page(), flags=re.MULTILINE)[1:]
    return {name: body for name, _, body in (part.partition("\n") for part in parts)}


def _keys(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for value in schema.values():
            yield from _keys(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _keys(value)


def test_every_key_of_the_schema_has_a_row() -> None:
    rows = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*) \|", keys_page(), re.MULTILINE))))
    assert set(_keys(workflow_schema(registry))) - rows == {"graph"}  # around the keys of DevAll's documents


def test_every_link_of_the_keys_has_its_section() -> None:
    page = keys_page()
    assert set(re.findall(r"\]\(#([\w-]+)\)", page)) <= set(re.findall(r"^\(([\w-]+)\)=$", page, re.MULTILINE))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_options(name: str, commands: dict[str, str]) -> None:
    sections = "".join(body for title, body in commands.items() if title.split(" ")[0] == name)
    assert {option for option in options_of(name) if option.startswith("-") and f"{option}" not in sections} == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_described_once(package: str) -> None:
    page = package_page(package)
    for name in public_names(package):
        described = re.findall(rf"\}} {package}\.{name}\b(?!\.)|^\* `{package}\.{name}` is", page, re.MULTILINE)
        assert len(described) == 1, name


def test_a_description_has_signature_fields_and_arguments() -> None:
    page = package_page("devmem")
    assert "{py:function} devmem.open(" in page
    assert "{py:method} devmem.Memory.search(" in page
    assert "{py:attribute} devmem.MemoryItem.metadata" in page
    assert "**Raises**" in page
    assert " at 0x" not in page


def test_names_of_a_package_without_a_list_are_its_own() -> None:
    names = public_names("devmem.errors")
    assert "ConfigError" in names
    assert all(importlib.import_module("devmem.errors").__dict__[name].__module__ == "devmem.errors" for name in names)


@pytest.mark.parametrize("adapter", adapters())
def test_every_public_name_of_an_adapter_is_described(adapter: str) -> None:
    page, names = adapters_page(), public_definitions(adapter)
    assert names
    for name in names:
        assert len(re.findall(rf"\}} devmem\.adapters\.{adapter}\.{name}\b(?!\.)", page)) == 1, name


@pytest.mark.sources
def test_an_adapter_has_the_names_that_it_exports() -> None:
    assert list(public_definitions("mcp")) == importlib.import_module("devmem.adapters.mcp").__all__
