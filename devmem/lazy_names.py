"""Packages whose names are imported when they are first used (PEP 562)."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec

from devmem.moved_modules import current_name


def lazy_names(package: str, submodules: Sequence[str] = ()) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package that lists its names once, under `if TYPE_CHECKING:`.

    Type checkers read the imports in that block. Here they are read from the package's compiled code, which is there in
    an installation without sources too, and each is executed when its name is first used.

    Args:
        package: the package's `__name__`.
        submodules: modules of the package that are attributes of it without being imported.
    """
    deferred: dict[str, tuple[str, str]] = {}

    def origins() -> dict[str, tuple[str, str]]:
        if not deferred:
            deferred.update(_deferred_imports(package))
        return deferred

    def get(name: str) -> object:
        if name in submodules:
            value: object = import_module(f"{package}.{name}")
        elif not name.startswith("__") and name in origins():
            module, original = origins()[name]
            value = getattr(import_module(module), original)
        elif (current := current_name(package, name)) is not None:
            elsewhere, _, original = current.rpartition(".")
            value = getattr(import_module(elsewhere or package), original)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *origins(), *submodules})

    return get, names


def _deferred_imports(package: str) -> dict[str, tuple[str, str]]:
    """Return the module and the original name of each name that the package's code imports from devmem."""
    spec = sys.modules[package].__spec__ or find_spec(package)
    code = spec.loader.get_code(package) if spec and spec.loader else None  # type: ignore[attr-defined]
    found: dict[str, tuple[str, str]] = {}
    module = original = ""
    for instruction in dis.get_instructions(code) if code else ():
        if instruction.opname == "IMPORT_NAME":
            module, original = str(instruction.argval), ""
        elif instruction.opname == "IMPORT_FROM":
            original = str(instruction.argval)
        elif instruction.opname == "STORE_NAME" and original:
            found[str(instruction.argval)] = (module, original)
            original = ""
    return found
