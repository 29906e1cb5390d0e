"""Which items of a memory a call of CrewAI's means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from crewai.memory.types import MemoryRecord

from devmem import Filter
from devmem.adapters.crewai.records import OTHERS, SCOPE, SOURCE, category_key, scope_text, seconds_of
from devmem.collections import differs_from, starts_with


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The part of a choice that the database makes, and the part that is made on the records."""

    where: Filter
    rest: Callable[[MemoryRecord], bool] | None = None
    """Predicate on what the database cannot compare, such as lists; None where there is nothing left."""

    def admits(self, record: MemoryRecord) -> bool:
        """Whether a record that the database selected is meant."""
        return self.rest is None or self.rest(record)


def below(scope: str | None, *, own_only: bool = False) -> Filter:
    """Return the filter of the items in a scope and below it.

    Args:
        scope: CrewAI's path; None or `/` is everything.
        own_only: whether what others wrote is left out, unless `scope` names it.
    """
    text = scope_text(scope or "/")
    others = Filter(source_name=differs_from(SOURCE))
    if text.startswith(scope_text(OTHERS)):
        return others
    own = Filter(source_name=SOURCE)
    if text == "/":
        return own if own_only else Filter(any_of=(own, others))
    return replace(own, metadata={SCOPE: starts_with(text)})


def selected(
    where: Filter,
    categories: Sequence[str] | None = None,
    metadata_filter: Mapping[str, Any] | None = None,
    older_than: datetime | None = None,
) -> Selection:
    """Return the selection of those items of a filter that have one of the categories and all of the metadata."""
    wanted = metadata_filter or {}
    plain = {key: value for key, value in wanted.items() if isinstance(value, str | int | float)}
    others = {key: value for key, value in wanted.items() if key not in plain}
    having = tuple(Filter(metadata={category_key(each): True}) for each in categories or ())
    narrowed = replace(
        where,
        metadata={**where.metadata, **plain},
        before=seconds_of(older_than) if older_than is not None else None,
    )
    if having:
        # A filter has one list of alternatives; those of the scope are each combined with those of the categories.
        scopes = narrowed.any_of or (Filter(),)
        narrowed = replace(
            narrowed, any_of=tuple(replace(one, metadata=each.metadata) for one in scopes for each in having)
        )
    if not others:
        return Selection(where=narrowed)
    return Selection(
        where=narrowed,
        rest=lambda record: all(record.metadata.get(key) == value for key, value in others.items()),
    )
