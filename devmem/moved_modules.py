"""Names of release 0.1, of modules and in packages, which are importable for one more release, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
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
"""Former names in public modules, each with the name that replaces it, there or in the package that is named;
`lazy_names` serves those of packages."""


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


def install() -> None:
    """Have the former names found by `import`, unless they are already."""
    if not any(isinstance(finder, _MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(_MovedFinder())
