"""Packages whose names are imported when they are first used (PEP 562), and the former names of modules and names.

The names of release 0.1 are importable for one more release, with a warning.
"""

from __future__ import annotations

import dis
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Final

MOVED: Final = {
    "devmem.collections": "devmem.storage",
    "devmem.embedding": "devmem.models",
    "devmem.llm": "devmem.models",
    "devmem.manager": "devmem.workflow",
    "devmem.recall": "devmem.search",
    "devmem.registry": "devmem.plugins",
    "devmem.reranking": "devmem.models",
    "devmem.runtime": "devmem.workflow",
}
"""Former names of public modules, each with the module that has their names now."""
MOVED_NAMES: Final = {
    "devmem.errors.StoreTypeClashError": "PluginClashError",
    "devmem.errors.StoreTypeError": "PluginError",
    "devmem.errors.StoreTypeLoadError": "BrokenPluginError",
    "devmem.errors.UnknownStoreTypeError": "UnknownPluginError",
    "devmem.recording.Recorder": "InteractionRecorder",
    "devmem.config.Place": "SourcePosition",
    "devmem.search.is_echo": "repeats_recalled",
    "devmem.storage.Erasing": "EraseRequest",
    "devmem.storage.Erasure": "EraseResult",
    "devmem.storage.FieldedCollection": "SupportsFieldIndex",
    "devmem.storage.StoreFacts": "StoreMetadata",
    "devmem.storage.Unreached": "Residue",
    "devmem.stores.Backoff": "devmem.text.Backoff",
    "devmem.stores.UnreadableError": "devmem.text.UnreadableError",
    "devmem.stores.count_words": "devmem.text.count_words",
    "devmem.stores.decode_text": "devmem.text.decode_text",
    "devmem.stores.describe_guess": "devmem.text.describe_guess",
    "devmem.stores.estimate_tokens": "devmem.text.estimate_tokens",
    "devmem.stores.extract_summary": "devmem.text.extract_summary",
    "devmem.stores.indented": "devmem.text.indented",
    "devmem.stores.last_sender": "devmem.text.last_sender",
    "devmem.stores.mostly_unspaced": "devmem.text.mostly_unspaced",
    "devmem.stores.one_line": "devmem.text.one_line",
    "devmem.stores.query_terms": "devmem.text.query_terms",
    "devmem.stores.shorten": "devmem.text.shorten",
    "devmem.stores.split_sentences": "devmem.text.split_sentences",
    "devmem.stores.strip_frames": "devmem.text.strip_frames",
}
"""Former names in public modules, each with the name that replaces it, there or in the package that is named."""


def lazy_names(package: str, submodules: Sequence[str] = ()) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package that lists its names once, under `if TYPE_CHECKING:`.

    Type checkers read the imports in that block (`from module import Name as Name` exports a name). Here they are read
    from the package's compiled code, which is there in an installation without sources too, and each is executed when
    its name is first used. Together they are the package's `__all__`.

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
        value: object
        if name in submodules:
            value = import_module(f"{package}.{name}")
        elif name == "__all__":
            value = sorted(each for each in origins() if not each.startswith("_"))
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
    found.pop("TYPE_CHECKING", None)
    return found


class _Moved(ModuleType):
    """A module under its former name; its attributes are those of the module under the new one."""

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(MOVED[self.__name__]), name)

    def __dir__(self) -> list[str]:
        return dir(import_module(MOVED[self.__name__]))


class _MovedFinder(MetaPathFinder, Loader):
    """Finds modules by their former names."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Return where a former name leads; None for every other name."""
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the stand-in, and warn whoever imports it."""
        message = f"{spec.name} is now {MOVED[spec.name]}; the old name goes with the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return _Moved(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the stand-in has no code."""


def current_name(package: str, name: str) -> str | None:
    """Return the name that replaces a former one in a package, and warn whoever asks; None for every other name."""
    found = MOVED_NAMES.get(f"{package}.{name}")
    if found is not None:
        message = f"{package}.{name} is now {found}; the old name goes with the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
    return found


def find_moved_modules() -> None:
    """Have the former names found by `import`, unless they are already."""
    if not any(isinstance(finder, _MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(_MovedFinder())
