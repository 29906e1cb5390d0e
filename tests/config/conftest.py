"""Reads workflows with store types, variables and folders that belong to one test."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from devmem.config import StoreTypes, Workflow, parse_workflow
from devmem.errors import ConfigError, Finding
from devmem.plugins import ENTRY_POINT_GROUP, StoreRegistry

from .fakes import FakeTypes

ROOT = Path(__file__).parents[2]

Read = Callable[..., Workflow]
Refuse = Callable[..., list[str]]


@pytest.fixture
def store_types() -> FakeTypes:
    return FakeTypes()


@pytest.fixture
def read(store_types: FakeTypes, tmp_path: Path) -> Read:
    """Read a text, with variables given by name."""

    def reading(text: str, **environ: str) -> Workflow:
        return parse_workflow(text, store_types, origin="w.yaml", base_dir=tmp_path, environ=environ)

    return reading


@pytest.fixture
def problems(read: Read) -> Callable[..., list[Finding]]:
    """Read a text that cannot be used, and return what is wrong with it."""

    def reading(text: str, **environ: str) -> list[Finding]:
        with pytest.raises(ConfigError) as caught:
            read(text, **environ)
        return list(caught.value.problems)

    return reading


@pytest.fixture
def refuse(problems: Callable[..., list[Finding]]) -> Refuse:
    """Read a text that cannot be used, and return the lines that a person sees, without the file's name."""

    def reading(text: str, **environ: str) -> list[str]:
        return [str(problem).removeprefix("w.yaml:").strip() for problem in problems(text, **environ)]

    return reading


@pytest.fixture
def own_types() -> StoreTypes:
    """The store types of this distribution alone, whatever else is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared: dict[str, str] = project["entry-points"][ENTRY_POINT_GROUP]
    points = [EntryPoint(name=name, value=value, group=ENTRY_POINT_GROUP) for name, value in declared.items()]
    return StoreRegistry(lambda: points)
