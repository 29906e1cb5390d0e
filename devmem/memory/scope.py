"""Which part of a memory a handle reaches, and what a call on it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Final, TypeAlias, TypedDict, Unpack, cast

from devmem.config.filter_forms import load_filter
from devmem.errors import FilterError, ItemNotFoundError, ScopeError
from devmem.model.border import check_characters
from devmem.model.conditions import Condition
from devmem.model.filters import Filter
from devmem.model.items import ANY, AnyUser, MemoryItem, Scope
from devmem.model.times import When
from devmem.text.moments import parse_moment

User: TypeAlias = str | AnyUser | None
"""A user's id; None stands for unscoped items, `devmem.ANY` for everybody's."""


class ScopeParts(TypedDict, total=False):
    """Who or what items belong to, as the methods of a memory take it."""

    user: User
    agent: str | None
    session: str | None
    conversation: str | None


PARTS: Final = ("agent", "session", "conversation")
"""Parts of a scope of which None means that they do not restrict; a user of None means unscoped items."""


def split_scope(options: Mapping[str, Any], accepted: type) -> tuple[ScopeParts, dict[str, Any]]:
    """Return whom the options of a call name, and the others.

    Args:
        options: keyword arguments.
        accepted: the `TypedDict` that names all of them.

    Raises:
        TypeError: there is no such option.
    """
    names = _named_options(accepted)
    if unknown := sorted(options.keys() - names):
        raise TypeError(f"there is no option {unknown[0]!r}; there are {', '.join(sorted(names))}")
    scope = {name: value for name, value in options.items() if name in ScopeParts.__annotations__}
    return cast("ScopeParts", scope), {name: value for name, value in options.items() if name not in scope}


@cache
def _named_options(accepted: type) -> frozenset[str]:
    return frozenset(name for base in (*accepted.__mro__, accepted) for name in getattr(base, "__annotations__", {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeGuard:
    """The part of a memory that a handle reaches and never leaves; by default all of it."""

    user: User = ANY
    """Whose items are within reach."""
    default_user: User = None
    """Whose items are meant by a call that names no user."""
    parts: Scope = field(default_factory=Scope)
    """Agent, session and conversation that an item within reach has, where they are set."""
    is_bound: bool = False
    """Whether it guards a scoped handle, which no filter may widen."""

    def bound(self, parts: ScopeParts) -> ScopeGuard:
        """Return the guard of a scoped handle, whose user is fixed: a user, everybody, or unscoped items.

        Raises:
            ScopeError: it would reach beyond this guard.
            ValueError: a part is not a name.
        """
        inner = self.restricted(parts)
        return replace(inner, default_user=inner.user, is_bound=True)

    def restricted(self, parts: ScopeParts) -> ScopeGuard:
        """Return the guard of one call.

        Raises:
            ScopeError: it would reach beyond this guard.
            ValueError: a part is not a name.
        """
        if unknown := parts.keys() - {"user", *PARTS}:
            raise TypeError(f"{sorted(unknown)[0]!r} is not a part of a scope (user, {', '.join(PARTS)})")
        named = {name: checked_name(name, value) for name in PARTS if (value := parts.get(name)) is not None}
        for name, value in named.items():
            if getattr(self.parts, name) not in (None, value):
                raise self._outside(name, value)
        return replace(self, user=self._user(parts.get("user")), parts=replace(self.parts, **named))

    def _user(self, wanted: object) -> User:
        if wanted is None:
            return self.default_user
        user = ANY if wanted is ANY else checked_name("user", wanted)
        if self.user is not ANY and user != self.user:
            raise self._outside("user", user)
        return user

    def _outside(self, part: str, wanted: object) -> ScopeError:
        return ScopeError(f"this handle reaches {self.describe()}; it was asked for {part} {wanted!r}")

    def matching(self, where: Where | None = None, **parts: Unpack[ScopeParts]) -> Filter:
        """Return the filter of one call, whose user may also be named in `where`.

        Raises:
            ScopeError: it would reach beyond this guard.
            ValueError: a part is not a name.
        """
        made = make_filter(where)
        if made.scope.user is not None and parts.get("user") is None:
            parts = {**parts, "user": made.scope.user}
        return self.restricted(parts).filter(made)

    def new_scope(self) -> Scope:
        """Return the scope of what is added without naming one."""
        return self.restricted({}).scope()

    def filter(self, where: Filter | None = None) -> Filter:
        """Return the filter that lets through what is within reach and matches `where`.

        Raises:
            ScopeError: `where` reaches beyond this guard.
        """
        where = where or Filter()
        if where.include_unscoped and self.is_bound:
            raise ScopeError(f"this handle reaches {self.describe()}; `include_unscoped` would widen it")
        asked = {part.name: value for part in fields(Scope) if (value := getattr(where.scope, part.name)) is not None}
        own = {name: value for name in PARTS if (value := getattr(self.parts, name)) is not None}
        if isinstance(self.user, str):
            own["user"] = self.user
        for name, value in asked.items():
            if own.get(name, value) != value or (name == "user" and self.user is None):
                raise self._outside(name, value)
        if self.user is None and "user" in where.scope_in and not where.scope_in["user"].admits(None):
            raise ScopeError(
                "a filter that names users finds none of theirs without `user=`; devmem.ANY means everyone"
            )
        unbound = {*where.unbound, *(["user"] if self.user is None else [])}
        return replace(where, scope=Scope(**{**asked, **own}), unbound=tuple(sorted(unbound)))

    def whole_user(self, why: str) -> tuple[str | None, bool]:
        """Return the user of whom everything is within reach, None for unscoped items, and whether everybody's is.

        Raises:
            ScopeError: only a part of a user's is; `why` says why that is not enough.
        """
        if self.parts != Scope():
            raise ScopeError(f"{why}; this handle reaches {self.describe()}")
        return (self.user, False) if self.user is None or isinstance(self.user, str) else (None, True)

    def scope(self) -> Scope:
        """Return the scope of a new item."""
        return replace(self.parts, user=self.user if isinstance(self.user, str) else None)

    def describe(self) -> str:
        """Word what is within reach: `user 'ann', agent 'writer'`."""
        user = {None: "unscoped items", ANY: "any user"}.get(self.user, f"user {self.user!r}")  # type: ignore[arg-type]
        parts = (f"{name} {value!r}" for name in PARTS if (value := getattr(self.parts, name)) is not None)
        return ", ".join([user, *parts])


def in_scope(item: MemoryItem, where: Filter) -> bool:
    """Whether an item belongs to the scope that a filter names; stores of other authors may not have looked."""
    is_free = all(getattr(item.scope, part) is None for part in where.unbound)
    return is_free and where.scope.admits(item.scope, include_unscoped=where.include_unscoped)


def check_sources(
    guard: ScopeGuard, items: Sequence[MemoryItem], read: Callable[[Sequence[str]], list[MemoryItem]]
) -> None:
    """Refuse items of a scoped handle that were derived from what is out of its reach, as they keep a hash of it.

    Args:
        guard: of the handle.
        items: that are to be stored.
        read: returns stored items.

    Raises:
        ItemNotFoundError: no such source is visible.
    """
    named = {parent for item in items for parent in item.provenance.parents} - {item.id for item in items}
    if not guard.is_bound or not named:
        return
    reach = guard.filter()
    if missing := named - {item.id for item in read(sorted(named)) if in_scope(item, reach)}:
        raise ItemNotFoundError(min(missing))


def checked_name(part: str, value: object) -> str:
    """Return a part of a scope, or an id, that can be told apart from every other.

    Raises:
        ValueError: it is empty, or holds a character that cannot be kept.
        TypeError: it is not text.
    """
    if not isinstance(value, str):
        raise TypeError(f"`{part}` is text, not {value!r:.60}")
    if not value.strip():
        raise ValueError(f"`{part}` is empty; leave it out, or pass None, where there is none")
    check_characters(part, value)
    return value


Values: TypeAlias = Mapping[str, str | int | float | bool | Condition]
"""Top-level metadata keys with the values, or conditions such as `devmem.storage.at_least(3)`, that records must
have."""


Where: TypeAlias = Filter | Mapping[str, Any]
"""A filter, or its form as `devmem.load_filter` reads it."""


def make_filter(
    where: Where | None = None,
    metadata: Values | None = None,
    after: When | None = None,
    before: When | None = None,
) -> Filter:
    """Return `where`, restricted further by the other arguments of a call.

    Raises:
        TypeError: an argument is of another type.
        ValueError: `after` or `before` is not a time, `after` is not earlier than `before`, or a mapping is no filter.
    """
    written = isinstance(where, Mapping) or after is not None or before is not None
    if isinstance(where, Mapping):
        where = load_filter(where)
    elif where is not None and not isinstance(where, Filter):
        raise TypeError(f"`where` is a devmem.Filter or a mapping, not {type(where).__name__}")
    where = where or Filter()
    restricted = replace(
        where,
        metadata={**where.metadata, **checked_mapping("metadata", metadata)},
        after=where.after if after is None else parse_moment(after),
        before=where.before if before is None else parse_moment(before),
    )
    # Filters that were combined may well admit nothing; a period that somebody wrote down is a mistake then.
    start, end = restricted.after, restricted.before
    if written and start is not None and end is not None and start >= end:
        raise FilterError("after", "it is not earlier than `before`, which is excluded, so that nothing can match")
    return restricted


def checked_mapping(name: str, value: object) -> Mapping[str, Any]:
    """Return a mapping with text keys, empty for None; raise `TypeError` for anything else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise TypeError(f"`{name}` is a mapping such as {{'topic': 'launch'}}, not {value!r:.60}")
    return value


_LARGEST: Final = 2**63 - 1
"""Largest number that databases count to."""


def checked_number(name: str, value: object) -> int:
    """Return a number of records, at most the largest that databases know.

    Raises:
        TypeError: it is not a whole number.
        ValueError: it is negative.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"`{name}` is a whole number, not {type(value).__name__}")
    if value < 0:
        raise ValueError(f"`{name}` is 0 or more, not {value}")
    return min(value, _LARGEST)
