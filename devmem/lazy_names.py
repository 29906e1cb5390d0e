"""Packages whose names are imported when they are first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    package: str, origins: Mapping[str, str], submodules: str = ""
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package; its names together are its `__all__`.

    Type checkers read the same names from imports under `if TYPE_CHECKING:`.

    Args:
        package: the package's `__name__`.
        origins: names, separated by spaces, by the module that has them.
        submodules: modules of the package that are attributes of it without being imported, separated by spaces.
    """
    module_of = {name: module for module, names in origins.items() for name in names.split()}

    def get(name: str) -> object:
        value: object
        if name in module_of:
            value = getattr(import_module(module_of[name]), name)
        elif name in submodules.split():
            value = import_module(f"{package}.{name}")
        elif name == "__all__":
            value = sorted(module_of)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of, *submodules.split()})

    return get, names
