"""Stand-ins for packages that a host imports although its memory does not use them.

Some hosts pin versions that cannot be installed beside devmem, or anywhere any more. They are installed without their
requirements; the packages that they only import are stood in for.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Anything(type):
    """Type of every name of such a package: it has any attribute, and can be called, subclassed and indexed."""

    def __getattr__(cls, name: str) -> Any:  # noqa: ANN401
        if name.startswith("__"):
            raise AttributeError(name)
        return _named(name)

    def __getitem__(cls, _: object) -> Any:  # noqa: ANN401
        return cls

    def __or__(cls, _: object) -> Any:  # noqa: ANN401
        return cls


def _named(name: str) -> Any:  # noqa: ANN401
    return _Anything(name, (), {"__init__": lambda *_, **__: None, "__call__": lambda _, given=None, *__, **___: given})


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name.startswith("__"):
            raise AttributeError(name)
        made = _named(name)
        setattr(self, name, made)
        return made


class _StandIns(MetaPathFinder, Loader):
    """Finds the packages last, so that one that is installed is used."""

    def __init__(self, packages: Collection[str]) -> None:
        self._packages = packages

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        return ModuleSpec(fullname, self, is_package=True) if fullname.split(".")[0] in self._packages else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: names are made when they are asked for."""


def stand_in_for(packages: Collection[str]) -> None:
    """Let packages be imported that are not installed."""
    sys.meta_path.append(_StandIns(frozenset(packages)))
