"""The protocol of stores whose content is made from something else, such as files: plan, index, watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStep:
    """Progress of an indexing."""

    files: int
    """Files that are done."""
    total: int
    """Files to look into; the others are as the index knows them."""
    chunks: int
    """Chunks stored so far."""
    embedded: int
    """Chunks embedded so far."""


IndexProgress = Callable[[IndexStep], None]
"""Called now and then while an indexing runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlan:
    """Changes that an indexing would make now."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    """Old and new name; the content is the same."""
    deleted: tuple[str, ...] = ()
    unchanged: int = 0
    reasons: tuple[str, ...] = ()
    """Why unchanged files are indexed again: other chunks, another model."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Files and sources that cannot be indexed, by name, and why."""

    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.new or self.changed or self.renamed or self.deleted or self.reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport(IndexPlan):
    """Changes that an indexing made."""

    files: int
    """Files in the index now."""
    chunks: int
    """Chunks in the index now."""
    files_read: int
    stored: int
    """Chunks that were written."""
    removed: int
    """Chunks that were taken out."""
    embedded: int
    """Chunks that were embedded; the others kept their embedding."""
    seconds: float
    kept_out: int = 0
    """Chunks that were left out because a tombstone stands for something in them."""
    guessed: Mapping[str, str] = field(default_factory=dict)
    """Files that were read with a guess at their encoding, by name, and what is known of it."""


@runtime_checkable
class Indexing(Protocol):
    """A store that is made from something else, and can be brought up to date."""

    def plan(self, *, rebuild: bool = False, drop_missing: bool = False) -> IndexPlan:
        """Report what `index` would do; nothing is written."""
        ...

    def index(
        self, progress: IndexProgress | None = None, *, rebuild: bool = False, drop_missing: bool = False
    ) -> IndexReport:
        """Bring the index up to date. Interrupted, it continues the next time.

        Args:
            progress: called now and then.
            rebuild: read every file again.
            drop_missing: also drop what is indexed of a source that is missing or has no file any more, as a disk that
                is not mounted has none; without it, that stays and the source is one of the `problems`.
        """
        ...

    def watch(self, changed: Callable[[IndexReport], None] | None = None) -> None:
        """Follow changes until the store is closed; `changed` is called, in another thread, after each one.

        Raises:
            MissingExtraError: the package that watches files is not installed.
        """
        ...
