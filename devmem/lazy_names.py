"""Packages whose names are imported when they are first used (PEP 562)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Final

_IMPORT: Final = re.compile(r"^from (\S+) import (\w+) as \2\b", re.MULTILINE)


def lazy_names(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package; its names together are its `__all__`.

    They are the names that its stub imports, `__init__.pyi`, which type checkers read too: each by a statement
    `from MODULE import NAME as NAME`. What it imports from the package itself are modules of it, which are attributes
    without being imported, and are not in its `__all__`.

    Args:
        package: the package's `__name__`.
        file: its `__file__`.
    """
    stub = os.path.join(os.path.dirname(file), "__init__.pyi")  # noqa: PTH118, PTH120 - a path costs more than the rest
    with open(stub, encoding="utf-8") as opened:  # noqa: PTH123 - likewise
        module_of = {name: module for module, name in _IMPORT.findall(opened.read())}

    def get(name: str) -> object:
        value: object
        module = module_of.get(name)
        if module == package:
            value = import_module(f"{package}.{name}")
        elif module is not None:
            value = getattr(import_module(module), name)
        elif name == "__all__":
            value = sorted(each for each, module in module_of.items() if module != package)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return get, names
