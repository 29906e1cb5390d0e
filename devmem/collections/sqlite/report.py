"""The report of an examined collection: counts, and findings in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from devmem.collections.sqlite.examination import Examination
from devmem.findings import Finding
from devmem.model.file_report import Fact, FileReport, damage, unfinished

_SHOWN: Final = 20
"""Maximum number of unreadable items that are listed."""


def report_of(found: Examination) -> FileReport:
    """Return the report of an examination."""
    facts: dict[str, Fact] = {key: found.facts.get(key) for key in ("store_type", "model")}
    facts.update(found.counts)
    return FileReport(path=str(found.path), kind="collection", facts=facts, findings=list(_findings(found)))


def _findings(found: Examination) -> Iterator[Finding]:
    yield from (damage(f"structure: {message}") for message in found.damage)
    for row, reason in list(found.unreadable.items())[:_SHOWN]:
        yield damage(f"row {row} cannot be read: {reason}")
    if len(found.unreadable) > _SHOWN:
        yield damage(f"and {len(found.unreadable) - _SHOWN:,} more items cannot be read")
    yield from (damage(text) for text in _rebuildable(found))
    if found.bad_versions:
        yield damage(f"{len(found.bad_versions):,} versions with damaged rows, which no history shows")
    yield from found.attachments
    yield from (unfinished(f"{count:,} {kind}") for kind, count in found.orphans.items())
    yield from (unfinished(f"leftover of a killed writer: {path.name}") for path in found.leftovers)


def _rebuildable(found: Examination) -> Iterator[str]:
    """Yield damage of what is made from the items."""
    for rows, thing, problem in (
        (found.bad_vectors, "passage", "with damaged vectors"),
        (found.bad_passages, "passage", "with damaged terms"),
        (found.bad_columns, "item", "with damaged columns, which no search finds"),
        (found.without_terms, "item", "without terms, which no search finds"),
    ):
        if rows:
            yield f"{len(rows):,} {thing if len(rows) == 1 else thing + 's'} {problem}"
    if found.unsealed:
        yield "the recorded properties of the collection (store type, model, ...) differ from their checksum"
    if found.miscounted:
        yield f"{found.facts['count']} items are recorded, {found.counts['items']:,} are there"
