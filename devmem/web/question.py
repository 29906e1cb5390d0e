"""The fields of the page's form, and the addresses that have them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from devmem.memory.scope import make_filter
from devmem.model.caller import Stage
from devmem.model.filters import Filter
from devmem.model.items import ANY, AnyUser, Scope
from devmem.text.moments import asker_time

UNSCOPED: Final = "-"
"""Value of the field `user` for the items of no user."""
MOST_HITS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The fields of the page's form."""

    text: str = ""
    store: str = ""
    """Name of a store; empty for all of them."""
    user: str = ""
    """A user's id, `UNSCOPED`, or empty for everybody's items."""
    agent: str = ""
    """Agent that the items belong to; empty for any."""
    source: str = ""
    """Name of the source of the items; empty for any."""
    node: str = ""
    """Id of the agent node as which the stores are asked; empty asks them directly."""
    stage: Stage = Stage.GEN
    limit: int = 5
    after: str = ""
    before: str = ""
    min_trust: float = 0.0
    max_trust: float = 1.0
    as_of: str = ""
    asked_at: str = ""
    """Time of the question, with the asker's zone; empty is now."""
    archived: bool = False
    """Search the archived items instead."""
    words_alone: bool = False
    """Search without the embedding model."""

    @property
    def whose(self) -> str | AnyUser | None:
        """The user as a search takes it."""
        return None if self.user == UNSCOPED else self.user or ANY

    def when(self) -> datetime | float | None:
        """Return the time of the question.

        Raises:
            ValueError: it cannot be read.
        """
        return asker_time(self.asked_at) if self.asked_at else None

    def where(self) -> Filter:
        """Return the filter beside the scope.

        Raises:
            ValueError: a time cannot be read.
        """
        wanted = Filter(
            scope=Scope(agent=self.agent or None), source_name=self.source or None, min_trust=self.min_trust
        )
        if self.max_trust < 1:
            wanted &= Filter(none_of=(Filter(min_trust=math.nextafter(self.max_trust, 2)),))
        return make_filter(wanted, after=self.after or None, before=self.before or None)


def question_of(fields: Mapping[str, str]) -> Question:
    """Return the question of a form.

    Raises:
        ValueError: a field cannot be used.
    """
    limit, least_trust, most_trust = (fields.get(name) or "" for name in ("limit", "min_trust", "max_trust"))
    try:
        count, least, most = int(limit or 5), float(least_trust or 0), float(most_trust or 1)
    except ValueError:
        raise ValueError("the number of hits and the trust are numbers") from None
    return Question(
        text=fields.get("q", "").strip(),
        store=fields.get("store", ""),
        user=fields.get("user", "").strip(),
        agent=fields.get("agent", "").strip(),
        source=fields.get("source", "").strip(),
        node=fields.get("node", ""),
        stage=Stage(fields.get("stage") or Stage.GEN),
        limit=min(max(count, 1), MOST_HITS),
        after=fields.get("after", "").strip(),
        before=fields.get("before", "").strip(),
        min_trust=least,
        max_trust=most,
        as_of=fields.get("as_of", "").strip(),
        asked_at=fields.get("asked_at", "").strip(),
        archived=fields.get("archived") == "yes",
    )


def start_of(older: str, stores: int) -> tuple[int, ...]:
    """Return where a page of the list begins, a number for each store; empty is the first page.

    Raises:
        ValueError: the field is not of this page.
    """
    numbers = tuple(int(number) for number in older.split(",") if number.isdecimal())
    if older and (len(numbers) != stores or len(older.split(",")) != stores):
        raise ValueError(f"{older!r:.60} is not a place in this list")
    return numbers


def address_of(fields: Mapping[str, str], **others: str) -> str:
    """Return the address of a view with some fields changed; an empty one is left out."""
    kept = {name: value for name, value in {**fields, **others}.items() if value}
    return f"/?{urlencode(kept)}" if kept else "/"
