"""Examining a store of a PostgreSQL database: its counts, and what waits; the server itself finds damaged pages."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Final

from devmem.model.results import FileReport, damage, refused_embeddings, unfinished
from devmem.storage.postgres.database import Access, Connection, composed, run_alone
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.rows import columns_of_items
from devmem.storage.postgres.schema import SCHEMA_VERSION, recorded_properties
from devmem.storage.postgres.transactions import Transactions
from devmem.storage.tables import NOW
from devmem.storage.writing import missing_columns
from devmem.text.analysis import ANALYSIS_VERSION

_COUNTS: Final = {
    "items": f"FROM items WHERE store = %(store)s AND {NOW}",
    "versions": f"FROM items WHERE store = %(store)s AND NOT {NOW}",
    **{name: f"FROM {name} WHERE store = %(store)s AND is_current" for name in ("passages", "vectors")},
    "tokens": "FROM tokens WHERE store = %(store)s",
    # Without a model items are marked too, in case one is added; nothing waits.
    "waiting": f"FROM items WHERE store = %(store)s AND {NOW} AND waiting AND %(model)s::text IS NOT NULL",
}
_UNUSED: Final = (
    "FROM attachments AS kept WHERE store = %(store)s AND NOT EXISTS (SELECT FROM attachment_uses AS used "
    "WHERE used.store = kept.store AND used.sha256 = kept.sha256)"
)
_WAITING: Final = {
    "erasures that have begun and not ended; whoever opens the store finishes them": (
        "FROM pending WHERE store = %(store)s AND kind = 'erasure'"
    ),
    "items that wait for their embedding": _COUNTS["waiting"],
    "attachments that no item uses": _UNUSED,
}
_STORE: Final = "SELECT store_type, analysis, model FROM stores WHERE store = %s"


def examine_store(url: str, name: str | None = None) -> FileReport:
    """Examine one snapshot of a store.

    Args:
        url: see `Location.parse`.
        name: name of the store where the URL names none.

    Raises:
        CollectionError: the server cannot be reached, or refuses.
    """
    access = Access(location=Location.parse(url, name))
    return run_alone(access, partial(_report, access))


def _report(access: Access, connection: Connection) -> FileReport:
    place = access.location
    connection.execute(
        # The whole store is counted, which takes as long as it takes.
        composed(
            f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {access.settings(writes=False)}; "
            "SET LOCAL statement_timeout = 0"
        )
    )
    found = recorded_properties(connection, place.schema)
    if not found:
        problem = "there is no store of devmem in this database"
    elif found["version"] != str(SCHEMA_VERSION):
        problem = f"the tables are of schema {found['version']}, and this devmem uses schema {SCHEMA_VERSION}"
    elif lacks := missing_columns(columns_of_items(connection)):
        problem = lacks
    else:
        record = connection.execute(_STORE, (place.number,)).fetchone()
        if record is not None:
            return _report_store(connection, place, *record)
        problem = f"there is no store {place.store!r}"
    return FileReport(path=str(place), kind="store", findings=[damage(problem)])


def _report_store(
    connection: Connection, place: Location, store_type: str | None, analysis: str, model: str | None
) -> FileReport:
    values: dict[str, object] = {"store": place.number, "model": model}
    counts = {name: _count(connection, rows, values) for name, rows in _COUNTS.items()}
    findings = []
    if analysis != ANALYSIS_VERSION:
        findings.append(
            unfinished("its terms are of another version of the text analysis; the next opening makes them again")
        )
    waits = f"FROM items WHERE store = %(store)s AND {NOW} AND waiting AND refusal IS NOT NULL"
    refused = composed(f"SELECT id, refusal {waits} ORDER BY row")
    reasons: dict[str, str] = dict(connection.execute(refused, values).fetchall())
    findings += refused_embeddings(reasons)
    for kind, rows in _WAITING.items():
        if number := _count(connection, rows, values):
            findings.append(unfinished(f"{number:,} {kind}"))
    facts = {"store_type": store_type, "model": model, **counts}
    return FileReport(path=str(place), kind="store", facts=facts, findings=findings)


def _count(connection: Connection, rows: str, values: dict[str, object]) -> int:
    ((number,),) = connection.execute(composed(f"SELECT count(*) {rows}"), values).fetchall()
    return int(number)


def repair_store(url: str, name: str | None = None) -> list[str]:
    """Delete attachments that no item uses and return what was done, one line each.

    Args:
        url: see `Location.parse`.
        name: name of the store where the URL names none.

    Raises:
        CollectionError: the server cannot be reached, or refuses.
    """
    if not examine_store(url, name).facts:
        return []
    access = Access(location=Location.parse(url, name))
    store = access.location.number
    # Not run alone: a connection that is lost when all is committed must not make the repair a second one.
    with closing(Transactions(access)) as transactions:
        number = transactions.write(
            lambda connection: connection.execute(composed(f"DELETE {_UNUSED}"), {"store": store}).rowcount
        )
    return [f"{number:,} attachments that no item uses were deleted"] if number else []
