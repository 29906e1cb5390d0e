"""Filters as the methods of a memory take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from devmem.collections import Condition, Filter
from devmem.memory.times import When, seconds_of

Values: TypeAlias = Mapping[str, str | int | float | bool | Condition]
"""Top-level metadata keys with the values, or conditions such as `devmem.collections.at_least(3)`, that records must
have."""


def make_filter(
    where: Filter | None = None,
    *,
    metadata: Values | None = None,
    after: When | None = None,
    before: When | None = None,
) -> Filter:
    """Return `where`, narrowed by what a call says beside it.

    Raises:
        ValueError: a time is none.
    """
    where = where or Filter()
    return replace(
        where,
        metadata={**where.metadata, **(metadata or {})},
        after=where.after if after is None else seconds_of(after),
        before=where.before if before is None else seconds_of(before),
    )
