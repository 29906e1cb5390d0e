"""Packages whose names are imported when they are first used (PEP 562)."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec


def lazy_names(package: str, submodules: Sequence[str] = ()) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package that says its names once, in its `if TYPE_CHECKING:` block.

    Type checkers read the imports in that block; here they are read from the package's source, and each is carried out
    when its name is first used.

    Args:
        package: the package's `__name__`.
        submodules: modules of the package that are attributes of it without being imported.
    """
    home = _deferred_imports(package)

    def get(name: str) -> object:
        if name in home:
            value = getattr(import_module(home[name]), name)
        elif name in submodules:
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home, *submodules})

    return get, names


def _deferred_imports(package: str) -> dict[str, str]:
    """Return the module of each name that the package imports under `TYPE_CHECKING`."""
    spec = sys.modules[package].__spec__ or find_spec(package)
    source = spec.loader.get_source(package) if spec and spec.loader else None  # type: ignore[attr-defined]
    return {
        name.name: block.module
        for statement in ast.parse(source or "").body
        if isinstance(statement, ast.If) and isinstance(statement.test, ast.Name)
        for block in statement.body
        if isinstance(block, ast.ImportFrom) and block.module
        for name in block.names
    }
