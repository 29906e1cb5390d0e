"""The store types: found in installed packages, or registered by code; loaded only when a workflow names them."""

from __future__ import annotations

import difflib
import importlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeVar, overload

from devmem.config.base import ConfigModel
from devmem.errors import PluginLoadError, StoreTypeClashError, StoreTypeLoadError, UnknownStoreTypeError
from devmem.models.embedding_providers import embedding_provider_names
from devmem.models.reranking import reranker_names
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
    summary: str = ""
    """One line for people who choose."""


ENTRY_POINT_GROUP: Final = "devmem.stores"

M = TypeVar("M", bound=type[MemoryBase])


class StoreRegistry:
    """Names of store types and what is behind them; safe to use from several threads.

    A name may be claimed once. When two packages claim it, that name fails and names both; the others work.
    """

    def __init__(self, discover: Callable[[], Iterable[EntryPoint]] | None = None) -> None:
        """Make a registry.

        Args:
            discover: returns the entry points to look at; None takes those of the installed packages.
        """
        self._discover = discover or (lambda: entry_points(group=ENTRY_POINT_GROUP))
        self._registered: dict[str, tuple[StoreType, str]] = {}
        self._found: dict[str, list[EntryPoint]] | None = None
        self._loaded: dict[str, StoreType] = {}
        self._lock = threading.RLock()

    def names(self) -> Sequence[str]:
        """List the names in alphabetical order; nothing is imported."""
        with self._lock:
            return sorted({*self._entry_points(), *self._registered})

    def register(self, store_type: StoreType, owner: str) -> None:
        """Register a store type in the name of `owner` (a module).

        Raises:
            StoreTypeClashError: other code registered the name.
        """
        with self._lock:
            known = self._registered.get(store_type.name)
            if known is not None and known[1] != owner:
                raise StoreTypeClashError(store_type.name, [f"module {known[1]}", f"module {owner}"])
            self._registered[store_type.name] = (store_type, owner)

    def get(self, name: str) -> StoreType:
        """Load a store type.

        Raises:
            UnknownStoreTypeError: nobody claims the name.
            StoreTypeClashError: more than one does.
            StoreTypeLoadError: its code cannot be used.
        """
        with self._lock:
            claims = self._entry_points().get(name, [])
            own = self._registered.get(name)
            loaded = self._loaded.get(name)
        if len(claims) > 1 or (own is not None and claims and not _is_same(own[0], claims[0])):
            raise StoreTypeClashError(name, [*map(_owner, claims), *([f"module {own[1]}"] if own else [])])
        if own is not None:
            return own[0]
        if loaded is not None:
            return loaded
        if not claims:
            raise self._unknown(name)
        # Without the lock: importing waits for other threads' imports, and these may register something.
        loaded = _load(name, claims[0])
        with self._lock:
            return self._loaded.setdefault(name, loaded)

    def _unknown(self, name: str) -> UnknownStoreTypeError:
        known = self.names()
        close = difflib.get_close_matches(name, known, n=1)
        return UnknownStoreTypeError(name, known, suggestion=close[0] if close else None)

    def config_model(self, name: str) -> type[ConfigModel]:
        """Return the model of the type's `config:` block; raises as `get` does."""
        return self.get(name).config_model

    def summary(self, name: str) -> str:
        """Return the type's line for people; raises as `get` does."""
        return self.get(name).summary

    def rerankers(self) -> Sequence[str]:
        """List what a `reranker:` block may name, in alphabetical order; nothing is imported."""
        return reranker_names()

    def embedding_providers(self) -> Sequence[str]:
        """List what an `embedding:` block may name, in alphabetical order; nothing is imported."""
        return embedding_provider_names()

    def check_location(self, location: str, *, states: bool) -> None:
        """Check that a place can be used, as far as this is known without opening it; see `StoreTypes`."""
        check_location(location, states=states)

    def owner(self, name: str) -> str:
        """Return who claims a name, without importing it; empty when nobody does."""
        with self._lock:
            if name in self._registered:
                return f"module {self._registered[name][1]}"
            return " and ".join(_owner(claim) for claim in self._entry_points().get(name, []))

    def load_plugin(self, module: str) -> None:
        """Import a module that registers store types, rerankers or embedding providers.

        Raises:
            PluginLoadError: it cannot be imported.
        """
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            reason = f"there is no module {error.name!r} on the Python path (install it, or set PYTHONPATH)"
            raise PluginLoadError(module, reason) from error
        except Exception as error:  # a stranger's module may raise anything while it is imported
            raise PluginLoadError(module, f"{type(error).__name__}: {error}") from error

    def _entry_points(self) -> dict[str, list[EntryPoint]]:
        if self._found is None:
            found: dict[str, list[EntryPoint]] = {}
            for point in self._discover():
                claims = found.setdefault(point.name, [])
                # One distribution can be seen twice, as an editable install and on the path.
                if all((claim.value, _owner(claim)) != (point.value, _owner(point)) for claim in claims):
                    claims.append(point)
            self._found = found
        return self._found


def _owner(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _is_same(registered: StoreType, claim: EntryPoint) -> bool:
    """Whether a package both registered a type and declares it as its entry point."""
    try:
        return _load(registered.name, claim).factory is registered.factory
    except StoreTypeLoadError:
        return False


def _load(name: str, point: EntryPoint) -> StoreType:
    try:
        loaded = point.load()
    except Exception as error:  # a stranger's module may raise anything while it is imported
        raise StoreTypeLoadError(name, _owner(point), f"{type(error).__name__}: {error}") from error
    if isinstance(loaded, StoreType):
        return loaded
    try:
        return from_class(name, loaded)
    except TypeError as error:
        raise StoreTypeLoadError(name, _owner(point), str(error)) from error


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
    return StoreType(
        name=name, config_model=model, factory=store, summary=store.summary if summary is None else summary
    )


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
        StoreTypeClashError: other code registered the name.
        TypeError: only one of `config_cls` and `factory` is given, or the decorated class is no store.
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
