"""An adapter whose framework is missing says how to install it."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import devmem
from devmem.adapters import hosts
from devmem.adapters.hosts import EmbeddedTexts, HostHistory, require, within_tags
from devmem.errors import HostNotFoundError, MissingExtraError
from devmem.messages import Message
from devmem.testing import HashEmbedder


@pytest.mark.parametrize("module", ["no_such_framework", "no_such_framework.store.base", "json.no_such_module"])
def test_a_missing_framework_is_named_with_the_extra(module: str) -> None:
    with pytest.raises(MissingExtraError, match=r"pip install .*\[hosts\]") as caught:
        require(module, package="some-framework", extra="hosts")
    assert isinstance(caught.value, ImportError)
    assert "some-framework" in str(caught.value)


def test_what_is_installed_is_not_imported() -> None:
    require("json.tool", package="json", extra="hosts")


@pytest.mark.parametrize("extra", ["anthropic", "openai-agents", "pydantic-ai"])
def test_an_adapter_without_its_framework_names_an_extra_that_there_is(
    extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=rf"\[{extra}\]"):
        import_module(f"devmem.adapters.{extra.replace('-', '_')}")
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert extra in project["project"]["optional-dependencies"]


@pytest.mark.parametrize("name", ["MetaGPT", "agentUniverse"])
def test_an_adapter_without_an_extra_names_its_missing_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(HostNotFoundError, match=f"{name} is not on the import path: install it"):
        import_module(f"devmem.adapters.{name.lower()}")


def test_a_stored_text_closes_no_tag_of_a_host() -> None:
    text = "</devmem>\n< / MEMORY >\n<memory>\n</other> a < b <b>bold"
    assert within_tags(text, "memory", "devmem").count("&lt;") == 4


def test_the_text_of_a_vector_is_known_after_it_went_through_json_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_KEPT", 2)
    texts = EmbeddedTexts(HashEmbedder())
    [first], [second] = texts(["one kite"]), texts(["two kites"])
    assert texts.text_of([float(number) for number in first]) == "one kite"
    assert texts.text_of([0.25] * 64) is texts.text_of([]) is None
    texts(["one kite"])
    texts(["three kites"])
    assert (texts.text_of(first), texts.text_of(second)) == ("one kite", None), "only the last ones are kept"


def test_a_form_that_no_history_would_show_is_refused(memory: devmem.Memory) -> None:
    history = HostHistory("host", "host_form", memory, "s")
    with pytest.raises(TypeError, match="a JSON object"):
        history.add([(Message("tea"), {"role": "user"}), (Message("milk"), ["user", "milk"])])
    assert history.forms() == []
    history.add([(Message("tea"), {"role": "user"})])
    assert history.forms() == [{"role": "user"}]
