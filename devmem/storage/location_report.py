"""Examining the place of a collection: a SQLite file, a file in DevAll's JSON, or a store in a database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from devmem.errors import CollectionError, Finding, Level
from devmem.model.results import FileReport, damage, refused_embeddings
from devmem.redaction import location_without_credentials
from devmem.storage.json_format import read_entries
from devmem.storage.opening import STATES_SUFFIX, DatabaseOpener, file_of, find_opener
from devmem.storage.sqlite.examination import examine, report_of


def examine_location(location: str | None, name: str | None = None) -> Iterator[FileReport]:
    """Yield the report of a collection's place; nothing where it is in memory or was never written to.

    Args:
        location: a path or a URL; None is memory.
        name: name of the store in a database, where the URL names none.

    Raises:
        CollectionError: a database cannot be reached.
        MissingExtraError: a package is missing; the error names the extra.
    """
    if location is None:
        return
    file = file_of(location)
    if file is None:
        opener = find_opener(location)
        note = Finding(message="databases of this kind are not examined; their own tools do that", level=Level.NOTE)
        place = location_without_credentials(location)
        if isinstance(opener, DatabaseOpener):
            yield opener.examine(location, name)
        else:
            yield FileReport(path=place, kind="server", findings=[note])
        return
    path = Path(file)
    if path.suffix == ".json" and path.exists():
        yield examine_json(path)
        beside = Path(f"{path}{STATES_SUFFIX}")
        if beside.exists():
            yield replace(examine_sqlite(beside), kind="states")
    elif path.exists():
        yield examine_sqlite(path)
    elif lost := [each.name for each in (Path(f"{path}.faiss"), Path(f"{path}-wal")) if each.is_file()]:
        missing = damage(f"the file is missing, although {lost[0]} beside it shows that it held items")
        yield FileReport(path=str(path), kind="collection", findings=[missing])


def repair_database(location: str) -> list[str] | None:
    """Rebuild what can be rebuilt of the store at a URL; return what was done, None where no database can do that.

    Raises:
        CollectionError: it cannot be repaired.
        MissingExtraError: a package is missing; the error names the extra.
    """
    opener = find_opener(location)
    return opener.repair(location, None) if isinstance(opener, DatabaseOpener) else None


def examine_sqlite(path: Path) -> FileReport:
    """Examine the SQLite file of a collection; see `examine`."""
    try:
        return report_of(examine(path))
    except CollectionError as error:
        return FileReport(path=str(path), kind="collection", findings=[damage(_reason(error))])


def examine_json(path: Path) -> FileReport:
    """Examine a file in DevAll's JSON."""
    try:
        entries = read_entries(path, None)
    except CollectionError as error:
        return FileReport(path=str(path), kind="JSON collection", findings=[damage(_reason(error))])
    embedded = sum(1 for entry in entries if entry.item.embedding is not None)
    refused = {entry.item.id: entry.refusal for entry in entries if entry.refusal is not None}
    return FileReport(
        path=str(path),
        kind="JSON collection",
        facts={"items": len(entries), "vectors": embedded},
        findings=list(refused_embeddings(refused)),
    )


def _reason(error: CollectionError) -> str:
    """Return an error's text without the path, which the report has."""
    return str(error).removeprefix(f"{error.location}: ")
