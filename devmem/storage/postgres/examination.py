"""Examining a store of a PostgreSQL database: counts, damaged rows, terms, vectors, waiting work; and repairing it.

An examination reads all of it in one read-only transaction on its own connection, which migrates and finishes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from psycopg import sql
from pydantic import ValidationError

from devmem.errors import CollectionError, Finding
from devmem.model.items import MemoryItem, load_item_json, original, why_unreadable
from devmem.model.results import FileReport, damage, refused_embeddings, unfinished
from devmem.search.indexes.passages import has_text
from devmem.storage.postgres.database import Access, Connection, composed, run_alone, stored_text
from devmem.storage.postgres.inserting import insert_passages, new_rows
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.rows import ITEM_TABLES, VERSION_TABLES, Tables, item_from, json_value, key_of
from devmem.storage.postgres.schema import PASSAGE_BITS, SCHEMA_VERSION, lock, require_store
from devmem.storage.postgres.server.maintenance import note_erasure
from devmem.storage.postgres.transactions import Database
from devmem.storage.writing import COLUMNS, PreparedItem, item_columns
from devmem.text.analysis import ANALYSIS_VERSION

_BATCH_SIZE: Final = 500
_SHOWN: Final = 20
"""Maximum number of unreadable items that are listed."""
_COLUMNS: Final = ", ".join(f'"{name}"' for name in COLUMNS)
_NEXT: Final = (
    f"SELECT row, body, id_key, content_key, {_COLUMNS} FROM {{items}} WHERE store = %s AND row > %s "
    f"ORDER BY row LIMIT {_BATCH_SIZE}"
)
_OTHER_METADATA: Final = (
    "SELECT row FROM unnest(%s::bigint[], %s::jsonb[]) AS wanted(row, metadata) "
    "JOIN {items} AS found USING (row) WHERE found.store = %s AND found.metadata <> wanted.metadata"
)
_TERMS: Final = (
    "SELECT passage, term_hashes, term_counts, term_length FROM {passages} "
    f"WHERE store = %s AND passage >= %s::bigint << {PASSAGE_BITS} AND passage < (%s::bigint + 1) << {PASSAGE_BITS}"
)
_ORPHANS: Final = {
    "{passages} without an item": "FROM {passages} AS one WHERE one.store = %(store)s AND NOT EXISTS (SELECT FROM "
    f"{{items}} AS item WHERE item.store = one.store AND item.row = one.passage >> {PASSAGE_BITS})",
    "{vectors} without a passage": "FROM {vectors} AS one WHERE one.store = %(store)s AND NOT EXISTS (SELECT FROM "
    "{passages} AS passage WHERE passage.store = one.store AND passage.passage = one.passage)",
    "{tokens} without a passage": "FROM {tokens} AS one WHERE one.store = %(store)s AND NOT EXISTS (SELECT FROM "
    "{passages} AS passage WHERE passage.store = one.store AND passage.passage = one.passage)",
}
"""Rows that belong to nothing, by what they are."""
_COUNTS: Final = {
    **{name: f"FROM {name} WHERE store = %(store)s" for name in ("items", "passages", "vectors", "tokens", "versions")},
    # Without a model items are marked too, in case one is added; nothing waits.
    "waiting": "FROM items WHERE store = %(store)s AND waiting AND %(model)s::text IS NOT NULL",
}
_DAMAGED_VECTORS: Final = (
    "FROM {vectors} WHERE store = %(store)s AND "
    "(vector_dims(vector) <> %(dimension)s OR abs(vector_norm(vector) - 1) > 0.01)"
)
_ATTACHMENTS: Final = {
    "attachments with another content": "FROM attachments WHERE store = %(store)s "
    "AND encode(sha256(content), 'hex') <> sha256",
    "attachments that are missing": "FROM attachment_uses AS used WHERE store = %(store)s AND NOT EXISTS (SELECT FROM "
    "attachments AS kept WHERE kept.store = used.store AND kept.sha256 = used.sha256)",
}
_UNUSED: Final = (
    "FROM attachments AS kept WHERE store = %(store)s AND NOT EXISTS (SELECT FROM attachment_uses AS used "
    "WHERE used.store = kept.store AND used.sha256 = kept.sha256)"
)
_WAITING: Final = {
    "erasures that have begun and not ended; whoever opens the store finishes them": (
        "FROM (SELECT DISTINCT plan FROM erasures WHERE store = %(store)s) AS plans"
    ),
    "erasures of which the indexes in the database still have something; whoever opens the store cleans them": (
        "FROM search_states WHERE store = %(store)s AND erased > cleaned"
    ),
    "items that wait for their embedding": _COUNTS["waiting"],
    "attachments that no item uses": _UNUSED,
}
_STORE: Final = "SELECT store, store_type, analysis, model, dimension FROM stores WHERE tenant = %s AND name = %s"


@dataclass(slots=True, kw_only=True)
class _Rows:
    """Results of reading the rows of `items`, or of `versions`."""

    unreadable: list[str] = field(default_factory=list)
    """A line for each row that cannot be read."""
    columns: list[int] = field(default_factory=list)
    """Rows whose columns are not those of their item."""
    terms: list[int] = field(default_factory=list)
    """Rows whose passages are missing or have other terms than their item."""


def examine_store(url: str, name: str | None = None, *, busy_timeout: float = 30.0) -> FileReport:
    """Examine one snapshot of a store.

    Args:
        url: see `Location.parse`.
        name: name of the store where the URL names none.
        busy_timeout: seconds to wait for the server.

    Raises:
        CollectionError: the server cannot be reached, or refuses.
    """
    place = Location.parse(url, name)
    access = Access(location=place, durability="full", busy_timeout=busy_timeout)

    def examine(connection: Connection) -> FileReport:
        connection.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # The whole store is read, which takes as long as it takes.
        connection.execute("SET LOCAL statement_timeout = 0")
        return _report(connection, place)

    return run_alone(access, examine)


def _report(connection: Connection, place: Location) -> FileReport:
    path = str(place)
    if (version := _version(connection, place)) is None:
        return FileReport(path=path, kind="store", findings=[damage("there is no store of devmem in this database")])
    if version != SCHEMA_VERSION:
        found = damage(f"the tables are of schema {version}, and this devmem uses schema {SCHEMA_VERSION}")
        return FileReport(path=path, kind="store", findings=[found])
    record = connection.execute(_STORE, (place.tenant, place.store)).fetchone()
    if record is None:
        return FileReport(path=path, kind="store", findings=[damage(f"there is no store {place.store!r}")])
    store, store_type, analysis, model, dimension = record
    values = {"store": store, "dimension": dimension, "model": model}
    counts = {name: _count(connection, rows, values) for name, rows in _COUNTS.items()}
    findings = [
        *_of_rows(connection, store, with_terms=analysis == ANALYSIS_VERSION),
        *_of_what_belongs(connection, values),
        *_of_waiting(connection, place, analysis, values),
    ]
    facts = {"store_type": store_type, "model": model, **counts}
    return FileReport(path=path, kind="store", facts=facts, findings=findings)


def _version(connection: Connection, place: Location) -> int | None:
    """Return the version of the tables; None where there are none."""
    name = sql.Identifier(place.schema, "properties")
    (there,) = connection.execute("SELECT to_regclass(%s)", (name.as_string(connection),)).fetchone() or (None,)
    if there is None:
        return None
    found = connection.execute("SELECT value FROM properties WHERE name = 'version'").fetchone()
    return int(found[0]) if found else None


def _count(connection: Connection, rows: str, values: dict[str, object]) -> int:
    ((number,),) = connection.execute(composed(f"SELECT count(*) {rows}"), values).fetchall()
    return int(number)


def _of_rows(connection: Connection, store: int, *, with_terms: bool) -> Iterator[Finding]:
    """Compare each row with the item in its body; that of an older analysis of texts has other terms."""
    items = _read_rows(connection, store, ITEM_TABLES, with_terms=with_terms)
    versions = _read_rows(connection, store, VERSION_TABLES, with_terms=with_terms)
    yield from map(damage, items.unreadable[:_SHOWN])
    if len(items.unreadable) > _SHOWN:
        yield damage(f"and {len(items.unreadable) - _SHOWN:,} more items cannot be read")
    for number, problem in (
        (len(items.columns), "items whose columns differ from their content, by which filters and searches go wrong"),
        (len(items.terms), "items with missing or other terms than their texts, which a search may not find"),
        (len(versions.unreadable), "versions that cannot be read, which no history shows"),
        (len(versions.columns), "versions whose columns differ from their content"),
        (len(versions.terms), "versions with missing or other terms than their texts"),
    ):
        if number:
            yield damage(f"{number:,} {problem}")


def _read_rows(connection: Connection, store: int, tables: Tables, *, with_terms: bool) -> _Rows:
    found, last = _Rows(), -1
    while rows := connection.execute(composed(_NEXT.format(items=tables.items)), (store, last)).fetchall():
        last = rows[-1][0]
        items = dict(_readable(rows, found))
        found.columns += _others(connection, store, tables, rows, items)
        if with_terms:
            query = composed(_TERMS.format(passages=tables.passages))
            stored = connection.execute(query, (store, rows[0][0], last)).fetchall()
            found.terms += _other_terms(items, stored)
    return found


def _readable(rows: Sequence[tuple[Any, ...]], found: _Rows) -> Iterator[tuple[int, MemoryItem]]:
    for row, body, _, _, name, *_ in rows:
        try:
            yield row, load_item_json(body)
        except (ValidationError, ValueError, RecursionError) as error:
            found.unreadable.append(f"row {row}, item {name!r}, cannot be read: {why_unreadable(error)}")


def _others(
    connection: Connection,
    store: int,
    tables: Tables,
    rows: Sequence[tuple[Any, ...]],
    items: dict[int, MemoryItem],
) -> list[int]:
    """Return the rows that have other columns, or other metadata, than their item."""
    differing = {
        row for row, _, *columns in rows if row in items and tuple(columns) != _columns_of(PreparedItem.of(items[row]))
    }
    same = [row for row in items if row not in differing]
    metadata = [json_value(items[row].metadata) for row in same]
    query = composed(_OTHER_METADATA.format(items=tables.items))
    return [*differing, *(row for (row,) in connection.execute(query, (same, metadata, store)))]


def _columns_of(prepared: PreparedItem) -> tuple[object, ...]:
    item = prepared.item
    return (key_of(item.id), key_of(item.content_hash), *item_columns(prepared, stored_text))


def _other_terms(items: dict[int, MemoryItem], stored: Sequence[tuple[Any, ...]]) -> list[int]:
    """Return the rows of the items whose passages are not stored with their terms."""
    found: dict[int, dict[int, tuple[Any, ...]]] = {}
    for passage, *terms in stored:
        found.setdefault(passage >> PASSAGE_BITS, {})[passage] = tuple(terms)
    return [row for row, item in items.items() if found.get(row, {}) != _terms_of(row, item)]


def _terms_of(row: int, item: MemoryItem) -> dict[int, tuple[bytes, bytes, int]]:
    encoded = PreparedItem.of(item).terms()
    return {passage: (one.hashes, one.counts, one.length) for passage, one in enumerate(encoded, row << PASSAGE_BITS)}


def _names(tables: Tables) -> dict[str, str]:
    return {name: getattr(tables, name) for name in ("items", "passages", "vectors", "tokens")}


def _of_what_belongs(connection: Connection, values: dict[str, object]) -> Iterator[Finding]:
    """Examine what belongs to items: rows that belong to none, vectors and attachments."""
    for tables in (ITEM_TABLES, VERSION_TABLES):
        names = _names(tables)
        for kind, rows in _ORPHANS.items():
            if number := _count(connection, rows.format(**names), values):
                yield unfinished(f"{number:,} {kind.format(**names).replace('_', ' ')}")
        if number := _count(connection, _DAMAGED_VECTORS.format(**names), values):
            kind = names["vectors"].replace("_", " ")
            yield damage(f"{number:,} {kind} of another length than the store's, or not of length 1")
    for kind, rows in _ATTACHMENTS.items():
        if number := _count(connection, rows, values):
            yield damage(f"{number:,} {kind}")


def _of_waiting(connection: Connection, place: Location, analysis: str, values: dict[str, object]) -> Iterator[Finding]:
    """Report work that waits."""
    if analysis != ANALYSIS_VERSION:
        yield unfinished("its terms are of another version of the text analysis; the next opening makes them again")
    system = connection.execute("SELECT value FROM properties WHERE name = 'system'").fetchone()
    if system != (str(connection.server.system),):
        yield unfinished(
            "a backup was restored: its rows are numbered again when the owner of the tables next opens a store of "
            f"schema {place.schema!r}"
        )
    refused = "SELECT id, refusal FROM items WHERE store = %(store)s AND waiting AND refusal IS NOT NULL ORDER BY row"
    yield from refused_embeddings({original(name): why for name, why in connection.execute(refused, values).fetchall()})
    for kind, rows in _WAITING.items():
        if number := _count(connection, rows, values):
            yield unfinished(f"{number:,} {kind}")


_ASSIGNED: Final = ", ".join(f'"{name}" = %s' for name in COLUMNS)
_STORE_AGAIN: Final = (
    "UPDATE items SET row = %s, xact = pg_current_xact_id(), waiting = %s, metadata = %s::jsonb, id_key = %s, "
    f"content_key = %s, {_ASSIGNED} WHERE store = %s AND row = %s"
)
_HELD: Final = "SELECT row FROM items WHERE store = %s AND id_key = %s AND row <> %s"


def repair_store(url: str, name: str | None = None, *, busy_timeout: float = 30.0) -> list[str]:
    """Rebuild what an examination finds wrong and return what was done, one line each.

    Rows that belong to nothing and attachments that no item uses are deleted. Items with damaged columns, terms or
    vectors are stored again from their content, as the newest, and wait for new embeddings. What cannot be read is left
    unchanged; versions lose damaged vectors and nothing else. It is one transaction; writers wait for it.

    Args:
        url: see `Location.parse`.
        name: name of the store where the URL names none.
        busy_timeout: seconds to wait for the server, and for writers.

    Raises:
        CollectionError: the tables have to be upgraded first, or the server cannot be reached, or refuses.
    """
    place = Location.parse(url, name)
    access = Access(location=place, durability="full", busy_timeout=busy_timeout)
    found = run_alone(access, partial(_find_damaged, place))
    if found is None:
        return []
    values, rows = found
    # Not run alone: a connection that is lost when all is committed must not make the repair a second one.
    with closing(Database(access)) as database:
        return database.write(lambda connection: _repair(connection, str(place), values, rows))


def _find_damaged(place: Location, connection: Connection) -> tuple[dict[str, Any], list[int]] | None:
    """Return number and dimension of a store, with the rows of damaged items; None where there is no such store."""
    connection.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    connection.execute("SET LOCAL statement_timeout = 0")
    if (version := _version(connection, place)) is None:
        return None
    is_other = version != SCHEMA_VERSION
    record = None if is_other else connection.execute(_STORE, (place.tenant, place.store)).fetchone()
    if is_other or (record is not None and record[2] != ANALYSIS_VERSION):
        raise CollectionError(
            str(place), "it is of another version of devmem, and can be repaired once the newer one has opened it."
        )
    if record is None:
        return None
    store, _, _, _, dimension = record
    values = {"store": store, "dimension": dimension}
    items = _read_rows(connection, store, ITEM_TABLES, with_terms=True)
    return values, sorted({*items.columns, *items.terms, *_rows_of_damaged_vectors(connection, ITEM_TABLES, values)})


def _rows_of_damaged_vectors(connection: Connection, tables: Tables, values: dict[str, Any]) -> list[int]:
    query = f"SELECT DISTINCT passage >> {PASSAGE_BITS} {_DAMAGED_VECTORS.format(**_names(tables))}"
    return [row for (row,) in connection.execute(composed(query), values)]


def _repair(connection: Connection, location: str, values: dict[str, Any], rows: Sequence[int]) -> list[str]:
    """Repair a store within a write transaction, which keeps other writers out."""
    store = values["store"]
    lock(connection, "store", store)
    require_store(connection, location, store)
    connection.execute("SET LOCAL statement_timeout = 0")
    done = [*_store_again(connection, store, rows), *_delete_what_is_unused(connection, values)]
    if bad := _rows_of_damaged_vectors(connection, VERSION_TABLES, values):
        _delete_passages(connection, store, bad, ("version_vectors", "version_tokens"))
        connection.execute("UPDATE versions SET waiting = true WHERE store = %s AND row = ANY(%s)", (store, bad))
        done.append(f"{len(bad):,} versions lost their damaged vectors")
    if done:
        # Indexes in memory and in the database were built from the old rows.
        connection.execute("UPDATE stores SET generation = generation + 1 WHERE store = %s", (store,))
        note_erasure(connection, store)
    return done


def _delete_what_is_unused(connection: Connection, values: dict[str, Any]) -> Iterator[str]:
    for tables in (ITEM_TABLES, VERSION_TABLES):
        names = _names(tables)
        for kind, rows in _ORPHANS.items():
            if number := connection.execute(composed(f"DELETE {rows.format(**names)}"), values).rowcount:
                yield f"{number:,} {kind.format(**names).replace('_', ' ')} were deleted"
    if number := connection.execute(composed(f"DELETE {_UNUSED}"), values).rowcount:
        yield f"{number:,} attachments that no item uses were deleted"


def _store_again(connection: Connection, store: int, rows: Sequence[int]) -> Iterator[str]:
    """Move items to new rows, by which every index takes them for new items."""
    stored = 0
    for row in rows:
        found = connection.execute("SELECT body FROM items WHERE store = %s AND row = %s", (store, row)).fetchone()
        item = None if found is None else item_from(connection.damaged, row, found[0])
        if item is None:
            continue
        prepared = PreparedItem.of(item)
        columns = _columns_of(prepared)
        if connection.execute(_HELD, (store, columns[0], row)).fetchone() is not None:
            yield f"the item {item.id!r} is stored twice, of which row {row} was left unchanged"
            continue
        _delete_passages(connection, store, [row], ("passages", "vectors", "tokens"))
        (new,) = new_rows(connection, 1)
        metadata = json_value(item.metadata)
        connection.execute(composed(_STORE_AGAIN), (new, has_text(item), metadata, *columns, store, row))
        for table, column in (("attachment_uses", "row"), ("versions", "base")):
            moved = f"UPDATE {table} SET {column} = %s WHERE store = %s AND {column} = %s"
            connection.execute(composed(moved), (new, store, row))
        insert_passages(connection, store, [(new, prepared)])
        connection.execute("INSERT INTO changes(store, row, kind) VALUES (%s, %s, 'deleted')", (store, row))
        stored += 1
    if stored:
        yield f"{stored:,} items with damaged columns, terms or vectors were stored again"


def _delete_passages(connection: Connection, store: int, rows: Sequence[int], tables: Sequence[str]) -> None:
    """Delete the passages of some items from tables."""
    for table in tables:
        connection.execute(
            composed(
                f"DELETE FROM {table} AS one USING unnest(%s::bigint[]) AS gone(row) WHERE one.store = %s "
                f"AND passage >= gone.row << {PASSAGE_BITS} AND passage < (gone.row + 1) << {PASSAGE_BITS}"
            ),
            (list(rows), store),
        )
