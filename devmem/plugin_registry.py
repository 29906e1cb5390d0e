"""The registry of plugins: what installed packages offer by entry points, and what code registers under a name.

Listing names imports nothing. A plugin is imported when it is asked for; ours are found as those of any other package.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from devmem.errors import (
    BrokenPluginError,
    DevmemError,
    PluginClashError,
    PluginError,
    PluginLoadError,
    UnknownPluginError,
)

T = TypeVar("T")

Discover: TypeAlias = Callable[[], Iterable[EntryPoint]]
"""Returns entry points to look at."""


class PluginRegistry(Generic[T]):
    """Names of one kind of plugin and what is behind them; safe to use from several threads.

    A name may be claimed once. When two packages claim it, that name fails and names both; the others work.
    """

    def __init__(
        self, kind: str, group: str, check: Callable[[str, object], T], *, discover: Discover | None = None
    ) -> None:
        """Make a registry.

        Args:
            kind: word for one of the plugins, for errors.
            group: entry-point group.
            check: returns the plugin made from a name and the object that its entry point names; raises `TypeError`
                where the object is no such plugin.
            discover: returns the entry points to look at; None takes those of the installed packages.
        """
        self._kind: Final = kind
        self._check, self._discover = check, discover or (lambda: _installed_group(group, tuple(sys.path)))
        self._registered: dict[str, tuple[T, str]] = {}
        self._loaded: dict[EntryPoint, T] = {}
        self._lock = threading.RLock()

    def names(self) -> Sequence[str]:
        """Return the names in alphabetical order; nothing is imported."""
        with self._lock:
            return sorted({*self._registered, *(point.name for point in self._discover())})

    def owner(self, name: str) -> str:
        """Return who claims a name, without importing it; empty when nobody does."""
        with self._lock:
            if name in self._registered:
                return f"module {self._registered[name][1]}"
        return " and ".join(_owner(claim) for claim in self._claims(name))

    def register(self, name: str, plugin: T, owner: str | None = None) -> None:
        """Register a plugin in the name of a module; None takes the module that defines it.

        The same object may be registered again, and so may the new definition of a module that is run again, as a cell
        of a notebook is.

        Raises:
            PluginClashError: the name is registered already.
            TypeError: the object is no such plugin.
        """
        plugin = self._check(name, plugin)
        owner = owner or str(getattr(plugin, "__module__", ""))
        with self._lock:
            known = self._registered.get(name)
            if known is not None and (known[1] != owner or not _is_again(known[0], plugin)):
                raise PluginClashError(self._kind, name, [f"module {known[1]}", f"module {owner}"])
            self._registered[name] = (plugin, owner)

    def get(self, name: str) -> T:
        """Return a plugin, which is imported unless it was before.

        Raises:
            UnknownPluginError: nobody claims the name.
            PluginClashError: more than one does.
            BrokenPluginError: its code cannot be used.
        """
        claims = self._claims(name)
        with self._lock:
            own = self._registered.get(name)
        if len(claims) > 1 or (own is not None and claims and not self._is_same(own[0], claims[0])):
            raise PluginClashError(
                self._kind, name, [*map(_owner, claims), *([f"module {own[1]}"] if own is not None else [])]
            )
        if own is not None:
            return own[0]
        if not claims:
            known = self.names()
            close = difflib.get_close_matches(name, known, n=1)
            raise UnknownPluginError(self._kind, name, known, suggestion=close[0] if close else None)
        return self._load(claims[0])

    def make(self, name: str, method: str, error: type[DevmemError], *arguments: object) -> Any:  # noqa: ANN401 - the caller knows
        """Return what a plugin that is a function makes of some arguments.

        Args:
            name: of the plugin.
            method: name of the method that the result has to have.
            error: raised where the plugin cannot be used, or fails with anything but a `DevmemError`.
            arguments: of the function.
        """
        try:
            factory = cast("Callable[..., object]", self.get(name))
            made = factory(*arguments)
        except PluginError as failure:
            raise error(str(failure)) from failure
        except DevmemError:
            raise
        except Exception as failure:  # a stranger's code may raise anything
            raise error(f"{self._kind} {name!r} of {self.owner(name)} failed: {_reason(failure)}") from failure
        if not callable(getattr(made, method, None)):
            raise error(f"the factory of {name!r} made {type(made).__name__}, which has no method `{method}`.")
        return made

    def _claims(self, name: str) -> list[EntryPoint]:
        claims = [point for point in self._discover() if point.name == name]
        if len(claims) < 2:
            # Telling the owner parses a distribution's metadata, some milliseconds each time.
            return claims
        # One distribution can be seen twice, as an editable install and on the path.
        return list({(point.value, _owner(point)): point for point in claims}.values())

    def _is_same(self, registered: T, claim: EntryPoint) -> bool:
        """Whether a package both registered a plugin and declares it as its entry point."""
        try:
            return self._load(claim) == registered
        except BrokenPluginError:
            return False

    def _load(self, point: EntryPoint) -> T:
        with self._lock:
            if point in self._loaded:
                return self._loaded[point]
        # Without the lock: importing waits for other threads' imports, and these may register something.
        try:
            found: object = point.load()
        except Exception as error:  # a stranger's module may raise anything while it is imported
            raise BrokenPluginError(self._kind, point.name, _owner(point), _reason(error)) from error
        try:
            plugin = self._check(point.name, found)
        except TypeError as error:
            raise BrokenPluginError(self._kind, point.name, _owner(point), str(error)) from error
        with self._lock:
            return self._loaded.setdefault(point, plugin)


def _is_again(known: object, plugin: object) -> bool:
    """Whether a plugin is the known one, or made of another object of the same definition.

    Lambdas and inner functions have no definition of their own. Each registration makes a new store type.
    """
    before, after = (getattr(each, "factory", each) for each in (known, plugin))
    name = getattr(after, "__qualname__", "<")
    is_redefined = before is not after and "<" not in name and getattr(before, "__qualname__", "") == name
    return known is plugin or is_redefined


def callable_plugin(what: str) -> Callable[[str, object], Any]:
    """Return the check of a registry whose plugins are functions that make something; `what` names it in the error."""

    def check(_name: str, found: object) -> object:
        if not callable(found):
            raise TypeError(f"{found!r} cannot be called to make {what}")
        return found

    return check


@lru_cache(maxsize=4)
def _installed(_path: tuple[str, ...]) -> EntryPoints:
    """Return the entry points of all packages on the import path; reading them takes longer than anything else here."""
    # Python 3.11 has another class for all groups together, which has `select` as well.
    return cast("EntryPoints", entry_points())


@lru_cache(maxsize=32)
def _installed_group(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    return tuple(_installed(path).select(group=group))


def _owner(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def load_plugin_module(module: str) -> None:
    """Import a module that registers plugins, by its name or by the path of its file, which ends with `.py`.

    Raises:
        PluginLoadError: it cannot be imported.
    """
    try:
        if module.endswith(".py"):
            _import_file(Path(module).resolve())
        else:
            importlib.import_module(module)
    except ModuleNotFoundError as error:
        reason = f"there is no module {error.name!r} on the Python path (install it, or set PYTHONPATH)"
        raise PluginLoadError(module, reason) from error
    except Exception as error:  # a stranger's module may raise anything while it is imported
        raise PluginLoadError(module, _reason(error)) from error


def _import_file(file: Path) -> None:
    """Import a file once, under a name that no other file has."""
    name = f"{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    sys.modules[name] = made = module_from_spec(spec)
    try:
        spec.loader.exec_module(made)
    except BaseException:
        # As the import of a module does: the next attempt runs it again.
        del sys.modules[name]
        raise
