"""Openers of collections by URL scheme, found through the entry-point group `devmem.collections`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeAlias

from devmem.collections.locations import check_spelling
from devmem.errors import CollectionError

ENTRY_POINT_GROUP: Final = "devmem.collections"

Discover: TypeAlias = Callable[[], Iterable[EntryPoint]]
"""Returns the entry points of installed packages."""


def _scheme_of(location: str) -> str:
    if "://" in location:
        return location.partition("://")[0].lower()
    return "json" if location.endswith(".json") else "sqlite"


@cache
def _installed() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def find_opener(location: str, discover: Discover | None = None) -> object:
    """Load the opener of a location's scheme, or of files where the location is a path.

    Raises:
        CollectionError: no package opens the scheme, several do, the package cannot be imported, or the location is a
            misspelled URL.
    """
    check_spelling(location)
    discover = discover or _installed
    scheme = _scheme_of(location)
    # One distribution can be seen twice, as an editable install and on the path.
    claims = {(point.value, _owner(point)): point for point in discover() if point.name == scheme}
    if len(claims) > 1:
        owners = " and by ".join(sorted(owner for _, owner in claims))
        raise CollectionError(location, f"the scheme {scheme!r} is claimed by {owners}; uninstall one of them.")
    if not claims:
        raise _unknown(location, scheme, sorted({point.name for point in discover()}))
    ((_, owner), point), *_ = claims.items()
    try:
        return point.load()
    except Exception as error:  # a stranger's module may raise anything while it is imported
        reason = f"{type(error).__name__}: {error}"
        raise CollectionError(location, f"the opener of {scheme!r} of {owner} cannot be loaded: {reason}") from error


def _owner(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _unknown(location: str, scheme: str, known: list[str]) -> CollectionError:
    close = difflib.get_close_matches(scheme, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return CollectionError(
        location,
        f"no installed package opens {scheme!r} URLs{hint} Known schemes: {', '.join(known) or 'none'}; "
        "a path such as memory/store.db needs no scheme.",
    )
