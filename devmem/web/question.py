"""The fields of the page's form, and the addresses that have them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from pydantic import AliasChoices, ConfigDict, Field, ValidationError

from devmem.memory.scope import make_filter
from devmem.model.caller import Stage
from devmem.model.filters import Filter
from devmem.model.items import ANY, AnyUser, Scope
from devmem.server.requests import SearchForm, problems_of
from devmem.text.moments import asker_time

UNSCOPED: Final = "-"
"""Value of the field `user` for the items of no user."""
MOST_HITS: Final = 50


class Question(SearchForm):
    """The fields of the page's form."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    query: str = Field(default="", max_length=10_000, validation_alias=AliasChoices("q", "query"))
    limit: int = Field(default=5, ge=1, le=MOST_HITS)
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
    min_trust: float = Field(default=0.0, ge=0, le=1)
    max_trust: float = Field(default=1.0, ge=0, le=1)
    as_of: str = ""
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
        return None if self.asked_at is None else asker_time(self.asked_at)

    def matching(self) -> Filter:
        """Return the filter beside the user.

        Raises:
            ValueError: a time cannot be read.
        """
        scope = Scope(agent=self.agent or None)
        wanted = super().matching() & Filter(scope=scope, source_name=self.source or None, min_trust=self.min_trust)
        if self.max_trust < 1:
            wanted &= Filter(none_of=(Filter(min_trust=math.nextafter(self.max_trust, 2)),))
        return make_filter(wanted, after=self.after, before=self.before)


def question_of(fields: Mapping[str, str]) -> Question:
    """Return the question of a form.

    Raises:
        ValueError: a field cannot be used.
    """
    try:
        return Question.model_validate({name: value for name, value in fields.items() if value.strip()})
    except ValidationError as error:
        raise ValueError("; ".join(problems_of(error))) from error


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
