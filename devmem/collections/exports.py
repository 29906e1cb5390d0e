"""Exports of a collection, recorded where it is: a forgetting names those that may hold what was forgotten."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Protocol, Self, runtime_checkable
from uuid import uuid4

from devmem.model.items import MemoryItem, Scope
from devmem.search.filters import Filter

MOST_EXPORTS: Final = 1_000
"""Maximum number of exports that are remembered, the latest ones."""
_MOST_IDS: Final = 100
_FOREVER: Final = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRecord:
    """An export or a backup that was made."""

    kind: Literal["export", "backup"]
    place: str
    """Path of the file; empty where it was printed."""
    made_at: float
    """Seconds since the epoch, as all times here."""
    items: int
    """Number of items."""
    scope: Scope = field(default_factory=Scope)
    """Scope that the items were selected by, as salted hashes: it outlives a user who is forgotten."""
    after: float | None = None
    before: float | None = None
    """End of the time that they were selected by, as `Filter` has it."""
    ids: tuple[str, ...] = ()
    """Ids that they were selected by, hashed too; empty where there were none, or too many to record."""
    salt: str = ""
    """Salt of the hashes."""

    @classmethod
    def of_selection(cls, place: str, *, made_at: float, items: int, where: Filter, ids: Sequence[str] = ()) -> Self:
        """Return the record of an export of the items that have some ids, if there are any, and match a filter."""
        salt = uuid4().hex
        return cls(
            kind="export",
            place=place,
            made_at=made_at,
            items=items,
            scope=_hashed_scope(where.scope, salt),
            after=where.after,
            before=where.before,
            ids=tuple(_hashed(each, salt) for each in ids) if len(ids) <= _MOST_IDS else (),
            salt=salt,
        )

    def may_hold(self, item: MemoryItem) -> bool:
        """Whether an item may be in it, as far as its scope and its times tell."""
        if item.created_at > self.made_at or (self.ids and _hashed(item.id, self.salt) not in self.ids):
            return False
        if self.scope != Scope() and not self.scope.admits(_hashed_scope(item.scope, self.salt)):
            return False
        return Filter(after=self.after, before=self.before).admits(item, _FOREVER)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; what does not apply is left out."""
        form = {key: value for key, value in asdict(self).items() if value not in (None, ()) and key != "scope"}
        scope = {key: value for key, value in asdict(self.scope).items() if value is not None}
        return {**form, **({"scope": scope} if scope else {})}

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Self:
        """Read the JSON form.

        Raises:
            TypeError: it is none.
        """
        return cls(**{**raw, "scope": Scope(**raw.get("scope", {})), "ids": tuple(raw.get("ids", ()))})


def _hashed(value: str, salt: str) -> str:
    return hashlib.sha256(f"{salt}{value}".encode("utf-8", "surrogatepass")).hexdigest()


def _hashed_scope(scope: Scope, salt: str) -> Scope:
    return Scope(**{part: None if value is None else _hashed(value, salt) for part, value in asdict(scope).items()})


@runtime_checkable
class ExportLog(Protocol):
    """A collection that remembers its exports."""

    def record_export(self, export: ExportRecord) -> None:
        """Remember an export, durably."""
        ...

    def exports(self) -> list[ExportRecord]:
        """Return the exports that were made, the oldest first."""
        ...
