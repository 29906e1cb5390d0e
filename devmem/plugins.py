"""The store types: found in installed packages, or registered by code; loaded only when a workflow names them."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar, overload

from devmem.config.base import ConfigModel
from devmem.errors import DevmemError, StorePluginError
from devmem.models.embedding_providers import embedding_provider_names
from devmem.models.reranking import reranker_names
from devmem.models.write_checks import write_check_names
from devmem.plugin_registry import Discover, PluginRegistry, load_plugin_module
from devmem.storage.opening import check_location
from devmem.stores.memory import MemoryBase, StoreSetup

StoreFactory = Callable[[StoreSetup], MemoryBase]
"""Makes a store; a store class is its own factory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreType:
    """A usable store type."""

    name: str
    config_model: type[ConfigModel]
    factory: StoreFactory
    summary: str = field(default="", compare=False)
    """One line for people who choose."""


ENTRY_POINT_GROUP: Final = "devmem.stores"

M = TypeVar("M", bound=type[MemoryBase])


class StoreRegistry:
    """The store types, and the names of everything else that a workflow may use; the `StoreTypes` of the configuration.

    A name may be claimed once. When two packages claim it, that name fails and names both; the others work.
    """

    def __init__(self, discover: Discover | None = None) -> None:
        """Make a registry.

        Args:
            discover: returns the entry points of store types; None takes those of the installed packages.
        """
        self._types: PluginRegistry[StoreType] = PluginRegistry(
            "store type", ENTRY_POINT_GROUP, _described, discover=discover
        )

    def names(self) -> Sequence[str]:
        """List the names in alphabetical order; nothing is imported."""
        return self._types.names()

    def register(self, store_type: StoreType, owner: str) -> None:
        """Register a store type in the name of `owner` (a module).

        Raises:
            PluginClashError: other code registered the name.
        """
        self._types.register(store_type.name, store_type, owner)

    def get(self, name: str) -> StoreType:
        """Return a store type; raises what `PluginRegistry.get` does."""
        return self._types.get(name)

    def make(self, setup: StoreSetup) -> MemoryBase:
        """Make a store of the type that its setup names, without opening its files.

        Raises:
            PluginError: the type cannot be used, or its code failed.
        """
        factory = self.get(setup.store_type).factory
        with plugin_errors(setup, factory):
            store: object = factory(setup)
            if not isinstance(store, MemoryBase):
                raise TypeError(f"its factory returned {store!r}, which is not a devmem.MemoryBase")
            return store

    def config_model(self, name: str) -> type[ConfigModel]:
        """Return the model of the type's `config:` block; raises as `get` does."""
        return self.get(name).config_model

    def summary(self, name: str) -> str:
        """Return the type's line for people; raises as `get` does."""
        return self.get(name).summary

    def owner(self, name: str) -> str:
        """Return who claims a name, without importing it; empty when nobody does."""
        return self._types.owner(name)

    def rerankers(self) -> Sequence[str]:
        """List what a `reranker:` block may name, in alphabetical order; nothing is imported."""
        return reranker_names()

    def embedding_providers(self) -> Sequence[str]:
        """List what an `embedding:` block may name, in alphabetical order; nothing is imported."""
        return embedding_provider_names()

    def guard_checks(self) -> Sequence[str]:
        """List what a check of a guard may be, in alphabetical order; nothing is imported."""
        return write_check_names()

    def check_location(self, location: str, *, states: bool) -> None:
        """Check that a place can be used, as far as this is known without opening it; see `StoreTypes`."""
        check_location(location, states=states)

    def load_plugin(self, module: str) -> None:
        """Import a module, or a file, that registers store types, rerankers or embedding providers.

        Raises:
            PluginLoadError: it cannot be imported.
        """
        load_plugin_module(module)


_OURS: Final = ("devmem", "devmem_stores")


def is_foreign(code: object) -> bool:
    """Whether the factory or the class of a store is not devmem's."""
    return str(getattr(code, "__module__", "")).partition(".")[0] not in _OURS


@contextmanager
def plugin_errors(setup: StoreSetup, code: object, *, only_inside: bool = False) -> Iterator[None]:
    """Name the store, its type and the file where code of a store type that is not devmem's fails in a `with` block.

    Args:
        setup: of the store.
        code: the factory, or the class of the store.
        only_inside: leave errors alone that were not raised by the code itself or what it calls.

    Raises:
        StorePluginError: the code raised an exception that is not a `DevmemError`.
    """
    try:
        yield
    except DevmemError:
        raise
    except Exception as error:
        if not is_foreign(code):
            raise
        module = str(getattr(code, "__module__", ""))
        file = getattr(sys.modules.get(module), "__file__", None) or module
        lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
        if only_inside and not lines:
            raise
        source = f"{file}:{lines[-1]}" if lines else file
        raise StorePluginError(setup.name, setup.store_type, source, error) from error


def _described(name: str, loaded: object) -> StoreType:
    return loaded if isinstance(loaded, StoreType) else from_class(name, loaded)


def from_class(name: str, store: object, *, summary: str | None = None) -> StoreType:
    """Describe a store class, which is its own factory and names its configuration model.

    Raises:
        TypeError: it is no such class.
    """
    if not (isinstance(store, type) and issubclass(store, MemoryBase)):
        raise TypeError(f"{store!r} is not a subclass of devmem.MemoryBase")
    model = getattr(store, "config_model", None)
    if not (isinstance(model, type) and issubclass(model, ConfigModel)):
        raise TypeError(f"{store.__name__}.config_model is not a subclass of devmem.stores.ConfigModel")
    if summary is None:
        summary = store.summary or next(iter((store.__doc__ or "").strip().splitlines()), "")
    return StoreType(name=name, config_model=model, factory=store, summary=summary)


registry: Final = StoreRegistry()
"""The registry that the command line and `register_memory_store` use."""


@overload
def register_memory_store(name: str, *, summary: str | None = None) -> Callable[[M], M]: ...


@overload
def register_memory_store(
    name: str, *, config_cls: type[ConfigModel], factory: StoreFactory, summary: str | None = None
) -> None: ...


def register_memory_store(
    name: str,
    *,
    config_cls: type[ConfigModel] | None = None,
    factory: StoreFactory | None = None,
    summary: str | None = None,
) -> Callable[[M], M] | None:
    """Register a store type: as a decorator of its class, or with its configuration model and a factory.

    ```python
    @register_memory_store("notes", summary="Keeps notes")
    class Notes(CollectionMemory): ...

    register_memory_store("notes", config_cls=NotesConfig, factory=make_notes, summary="Keeps notes")
    ```

    Raises:
        PluginClashError: other code registered the name.
        TypeError: only one of `config_cls` and `factory` is given, or the decorated class is not a store.
    """
    if factory is not None and config_cls is not None:
        described = StoreType(name=name, config_model=config_cls, factory=factory, summary=summary or "")
        registry.register(described, factory.__module__)
        return None
    if factory is not None or config_cls is not None:
        raise TypeError("register_memory_store needs config_cls and factory together, or decorates a store class")

    def decorate(store: M) -> M:
        registry.register(from_class(name, store, summary=summary), store.__module__)
        return store

    return decorate
