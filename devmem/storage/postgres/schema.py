"""The tables of a PostgreSQL database.

Every table with items begins with the store, by which it is partitioned: one partition holds all stores that have none
of their own. `commits` has a token of each recent transaction, by which a client whose connection was lost finds out
whether it was committed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

import psycopg

from devmem.errors import CollectionError
from devmem.storage.postgres.database import Connection, composed

SEARCH_TABLES: Final = ("search_states", "segments", "postings")
"""Partitioned by store, as all tables with what a store holds."""
CODE_TABLES: Final = ("vector_codes",)
"""The same, of version 4."""

CREATE_SEARCH_TABLES: Final = """
CREATE TABLE search_states(
    store integer NOT NULL,
    merged pg_snapshot NOT NULL DEFAULT '1:1:',
    PRIMARY KEY (store)
) PARTITION BY LIST (store);
CREATE TABLE segments(
    store integer NOT NULL,
    segment bigint NOT NULL,
    passages bytea NOT NULL,
    lengths bytea NOT NULL,
    texts integer NOT NULL,
    total_length bigint NOT NULL,
    PRIMARY KEY (store, segment)
) PARTITION BY LIST (store);
CREATE TABLE postings(
    store integer NOT NULL,
    segment bigint NOT NULL,
    term bigint NOT NULL,
    docs bytea NOT NULL,
    codes bytea NOT NULL,
    PRIMARY KEY (store, segment, term)
) PARTITION BY LIST (store);
ALTER TABLE segments ALTER passages SET STORAGE EXTERNAL, ALTER lengths SET STORAGE EXTERNAL;
ALTER TABLE postings ALTER docs SET STORAGE EXTERNAL, ALTER codes SET STORAGE EXTERNAL;
CREATE INDEX items_by_turn ON items(store, conversation, row) WHERE conversation IS NOT NULL;
CREATE INDEX items_by_turn_of_session ON items(store, session, row) WHERE session IS NOT NULL;
DROP INDEX items_by_conversation;
DROP INDEX items_by_session;
CREATE INDEX items_standing ON items(store, row) WHERE cues & 12 <> 0
"""
"""Statements that bring tables of version 1 to version 2."""

CREATE_CODE_TABLES: Final = """
CREATE TABLE vector_codes(
    store integer NOT NULL,
    block bigint NOT NULL,
    passages bytea NOT NULL,
    codes bytea NOT NULL,
    PRIMARY KEY (store, block)
) PARTITION BY LIST (store);
ALTER TABLE vector_codes ALTER passages SET STORAGE EXTERNAL, ALTER codes SET STORAGE EXTERNAL;
CREATE INDEX items_of_user ON items(store, "user", agent, conversation) INCLUDE (row, expires_at);
CREATE INDEX items_by_source ON items(store, "user", agent, source_name);
DROP INDEX items_by_scope
"""
"""Statements that bring tables of version 3 to version 4."""

MARK_SEGMENTS: Final = """
ALTER TABLE segments ADD COLUMN coded boolean NOT NULL DEFAULT true;
ALTER TABLE segments ALTER COLUMN coded DROP DEFAULT
"""
"""Statements that bring tables of version 4 to version 5.

A process of version 3 that goes on cannot make segments without a value, and these would have no codes of vectors.
"""

COUNT_ERASURES: Final = """
ALTER TABLE search_states ADD COLUMN erased bigint NOT NULL DEFAULT 0, ADD COLUMN cleaned bigint NOT NULL DEFAULT 0
"""
"""Statement that brings tables of version 5 to version 6."""

INLINE_TOKENS: Final = "ALTER TABLE tokens ALTER codes SET STORAGE MAIN"
"""Statement that brings tables of version 6 to version 7.

Codes of more than 2 KB, some forty tokens, would be kept apart from their row, where reading them takes twice as long.
"""


NAME_ERASURES: Final = """
ALTER TABLE erasures ADD COLUMN plan uuid, ADD COLUMN backend integer, ADD COLUMN backend_start timestamptz
"""
"""Statement that brings tables of version 8 to version 9: a plan has an id, and the session that is at work on it."""

MARK_ARCHIVED: Final = """
ALTER TABLE versions ADD COLUMN archived boolean;
CREATE INDEX versions_past ON versions(store, recorded_until) WHERE archived IS NULL;
CREATE INDEX versions_archived ON versions(store, id_key) WHERE archived
"""
"""Statements that bring tables of version 9 to version 10."""

VERSION_TABLES: Final = ("versions", "version_passages", "version_vectors", "version_tokens", "runs", "erasures")
"""Partitioned by store, as all tables with what a store holds."""

CREATE_VERSION_TABLES: Final = """
ALTER TABLE items ADD COLUMN operation text, ADD COLUMN change_run text COLLATE "C", ADD COLUMN recorded_from bigint,
    ADD COLUMN change_actor text COLLATE "C";
CREATE INDEX items_by_change_run ON items(store, change_run) WHERE change_run IS NOT NULL;
CREATE TABLE versions(
    LIKE items INCLUDING DEFAULTS,
    recorded_until bigint,
    end_operation text,
    end_run text COLLATE "C",
    end_actor text COLLATE "C",
    base bigint,
    PRIMARY KEY (store, row)
) PARTITION BY LIST (store);
CREATE INDEX versions_by_id ON versions(store, id_key);
CREATE INDEX versions_by_end ON versions(store, recorded_until);
CREATE INDEX versions_by_change_run ON versions(store, change_run) WHERE change_run IS NOT NULL;
CREATE INDEX versions_by_end_run ON versions(store, end_run) WHERE end_run IS NOT NULL;
CREATE UNIQUE INDEX versions_pending ON versions(store, change_run, id_key) WHERE recorded_until IS NULL;
CREATE INDEX versions_expiring ON versions(store, expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE version_passages(LIKE passages, PRIMARY KEY (store, passage)) PARTITION BY LIST (store);
CREATE TABLE version_vectors(LIKE vectors, PRIMARY KEY (store, passage)) PARTITION BY LIST (store);
CREATE TABLE version_tokens(LIKE tokens, PRIMARY KEY (store, passage)) PARTITION BY LIST (store);
CREATE TABLE runs(
    store integer NOT NULL,
    run text COLLATE "C" NOT NULL,
    state text NOT NULL,
    actor text COLLATE "C",
    started_at bigint NOT NULL,
    committed_at bigint,
    ended_at bigint,
    PRIMARY KEY (store, run)
) PARTITION BY LIST (store);
CREATE TABLE erasures(
    store integer NOT NULL,
    id text COLLATE "C",
    row bigint
) PARTITION BY LIST (store);
CREATE INDEX erasures_by_store ON erasures(store)
"""
"""Statements that bring tables of version 2 to version 3."""


SCHEMA_VERSION: Final = 1
PASSAGE_BITS: Final = 20
"""A passage's number is its item's row, shifted by these, and its place in the item: what has the higher row has the
higher passages, whoever commits first."""

PARTITIONED: Final = (
    "items", "passages", "vectors", "tokens", "changes", "attachments", "attachment_uses", "states",
    *SEARCH_TABLES, *VERSION_TABLES, *CODE_TABLES,
)  # fmt: skip
"""Tables that are partitioned by store."""

_TABLES: Final = """
CREATE TABLE properties(name text PRIMARY KEY, value text NOT NULL);
CREATE SEQUENCE row_numbers AS bigint;
CREATE TABLE commits(token uuid PRIMARY KEY);
CREATE TABLE stores(
    store integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    name text NOT NULL,
    store_type text,
    analysis text NOT NULL,
    model text,
    dimension integer,
    generation bigint NOT NULL DEFAULT 0,
    changes_floor xid8 NOT NULL DEFAULT '0',
    UNIQUE (tenant, name)
);
CREATE TABLE items(
    store integer NOT NULL,
    row bigint NOT NULL,
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id_key uuid NOT NULL,
    content_key uuid NOT NULL,
    id text COLLATE "C" NOT NULL,
    content_hash text COLLATE "C" NOT NULL,
    created_at double precision NOT NULL,
    event_time double precision,
    expires_at double precision,
    trust double precision NOT NULL,
    importance double precision,
    agent text COLLATE "C", "user" text COLLATE "C", session text COLLATE "C",
    conversation text COLLATE "C", trace text COLLATE "C", run text COLLATE "C",
    source_kind text COLLATE "C" NOT NULL,
    source_name text COLLATE "C" NOT NULL,
    speaker text COLLATE "C",
    cues integer NOT NULL,
    length integer NOT NULL,
    waiting boolean NOT NULL,
    refusal text,
    metadata jsonb NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (store, row)
) PARTITION BY LIST (store);
CREATE UNIQUE INDEX items_by_id ON items(store, id_key);
CREATE INDEX items_by_content ON items(store, content_key);
CREATE INDEX items_by_xact ON items(store, xact);
CREATE INDEX items_by_time ON items(store, (COALESCE(event_time, created_at)));
CREATE INDEX items_by_scope ON items(store, "user", agent, conversation);
CREATE INDEX items_by_session ON items(store, session) WHERE session IS NOT NULL;
CREATE INDEX items_by_conversation ON items(store, conversation) WHERE conversation IS NOT NULL;
CREATE INDEX items_by_trace ON items(store, trace) WHERE trace IS NOT NULL;
CREATE INDEX items_expiring ON items(store, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX items_waiting ON items(store, row) WHERE waiting;
CREATE TABLE passages(
    store integer NOT NULL,
    passage bigint NOT NULL,
    term_hashes bytea NOT NULL,
    term_counts bytea NOT NULL,
    term_length integer NOT NULL,
    PRIMARY KEY (store, passage)
) PARTITION BY LIST (store);
CREATE TABLE vectors(
    store integer NOT NULL,
    passage bigint NOT NULL,
    vector vector NOT NULL,
    PRIMARY KEY (store, passage)
) PARTITION BY LIST (store);
CREATE TABLE tokens(
    store integer NOT NULL,
    passage bigint NOT NULL,
    codes bytea NOT NULL,
    PRIMARY KEY (store, passage)
) PARTITION BY LIST (store);
CREATE TABLE changes(
    store integer NOT NULL,
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    row bigint NOT NULL,
    kind text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
) PARTITION BY LIST (store);
CREATE INDEX changes_by_xact ON changes(store, xact);
CREATE INDEX changes_by_time ON changes(store, at);
CREATE TABLE attachments(
    store integer NOT NULL,
    sha256 text NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (store, sha256)
) PARTITION BY LIST (store);
CREATE TABLE attachment_uses(
    store integer NOT NULL,
    sha256 text NOT NULL,
    row bigint NOT NULL,
    PRIMARY KEY (store, sha256, row),
    FOREIGN KEY (store, sha256) REFERENCES attachments
) PARTITION BY LIST (store);
CREATE INDEX attachment_uses_by_row ON attachment_uses(store, row);
CREATE TABLE states(
    store integer NOT NULL,
    kind text NOT NULL,
    name_key uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    value bytea NOT NULL,
    PRIMARY KEY (store, kind, name_key)
) PARTITION BY LIST (store)
"""


def statements() -> Iterator[str]:
    """Yield the statements that make the tables, each with a partition for all stores."""
    yield from _TABLES.strip().split(";\n")
    yield from CREATE_SEARCH_TABLES.strip().split(";\n")
    yield from CREATE_VERSION_TABLES.strip().split(";\n")
    yield from CREATE_CODE_TABLES.strip().split(";\n")
    yield from MARK_SEGMENTS.strip().split(";\n")
    yield COUNT_ERASURES
    yield INLINE_TOKENS
    yield NAME_ERASURES
    yield from MARK_ARCHIVED.strip().split(";\n")
    for table in PARTITIONED:
        yield default_partition(table)


def table_of(name: str) -> str:
    """Return the expression of devmem's own table or index, null where there is none; `name` is an expression.

    A name alone would be looked up in the schema `public` too.
    """
    return f"to_regclass(quote_ident(current_schema()) || '.' || {name})"


def default_partition(table: str) -> str:
    """Return the statement that makes the partition for all stores that have none of their own."""
    return f"CREATE TABLE {table}_of_all PARTITION OF {table} DEFAULT"


def partition_statements(store: int, tables: Sequence[str] = PARTITIONED) -> Iterator[str]:
    """Yield the statements that make the partitions of one store, which has no rows in these tables yet."""
    for table in tables:
        yield f"CREATE TABLE IF NOT EXISTS {table}_{store} PARTITION OF {table} FOR VALUES IN ({store})"


def drop_statements(store: int) -> Iterator[str]:
    """Yield the statements that drop the partitions of one store with all that they hold."""
    for table in reversed(PARTITIONED):
        if table == "attachments":
            # A partition that a foreign key refers to is not dropped while it is one.
            yield f"ALTER TABLE {table} DETACH PARTITION {table}_{store}"
        yield f"DROP TABLE {table}_{store}"


_TENANT: Final = "current_setting('devmem.tenant')"
_OF_TENANT: Final = f"tenant = {_TENANT}"
_STORE_OF_TENANT: Final = f"store IN (SELECT store FROM stores WHERE tenant = {_TENANT})"
_PARTITIONS: Final = """
SELECT child.relname FROM pg_inherits
JOIN pg_class AS child ON child.oid = inhrelid
WHERE inhparent = ANY(%s::text[]::regclass[])
"""


def secure_tables(connection: Connection) -> None:
    """Secure all tables with rows of stores, and their partitions; their owner is subject to it, superusers never."""
    _run(connection, _secured("stores", _OF_TENANT))
    partitions = [name for (name,) in connection.execute(_PARTITIONS, (list(PARTITIONED),))]
    secure(connection, [*PARTITIONED, *partitions])


def secure(connection: Connection, tables: Sequence[str]) -> None:
    """Secure tables that begin with the store."""
    for table in tables:
        _run(connection, _secured(table, _STORE_OF_TENANT))


def is_secured(connection: Connection) -> bool:
    """Whether the tables have row-level security."""
    found = connection.execute("SELECT relrowsecurity FROM pg_class WHERE oid = 'stores'::regclass").fetchone()
    return found is not None and bool(found[0])


def see_all_rows(connection: Connection) -> None:
    """Let the owner of the tables see the rows of all tenants until `see_own_rows`; nobody else is let through."""
    _run(connection, (f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY" for table in ("stores", *PARTITIONED)))


def see_own_rows(connection: Connection) -> None:
    """Subject the owner of the tables to row-level security again."""
    _run(connection, (f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY" for table in ("stores", *PARTITIONED)))


def owns_tables(connection: Connection) -> bool:
    """Whether the connection's user may change the tables."""
    query = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'stores'::regclass"
    return bool((connection.execute(query).fetchone() or (False,))[0])


def _run(connection: Connection, statements: Iterator[str]) -> None:
    for statement in statements:
        connection.execute(composed(statement))


def _secured(table: str, condition: str) -> Iterator[str]:
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
    yield f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"
    yield f"DROP POLICY IF EXISTS devmem_tenant ON {table}"
    yield f"CREATE POLICY devmem_tenant ON {table} USING ({condition})"


def lock(connection: Connection, *what: object) -> None:
    """Hold a lock until the transaction ends; `what` names it."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (key_of_lock(connection, *what),))


def lock_in_database(connection: Connection, what: str) -> None:
    """Hold a lock that stores of all schemas have in common until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_number("devmem", what),))


def lock_shared(connection: Connection, *what: object) -> None:
    """Hold a lock together with others that share it until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (key_of_lock(connection, *what),))


def lock_each(connection: Connection, names: Sequence[tuple[object, ...]]) -> None:
    """Hold several locks until the transaction ends, taken in one order, so that no two wait for each other."""
    keys = sorted({key_of_lock(connection, *name) for name in names})
    connection.execute("SELECT count(pg_advisory_xact_lock(key)) FROM unnest(%s::bigint[]) AS key", (keys,))


def key_of_lock(connection: Connection, *what: object) -> int:
    """Return the number by which PostgreSQL knows the lock that `what` names in the connection's schema."""
    return _number("devmem", connection.schema, *map(str, what))


def _number(*names: str) -> int:
    named = "\0".join(names).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "little", signed=True)


_SELECT: Final = "SELECT tableoid::bigint, model, dimension FROM stores WHERE store = %s"


def require_store(connection: Connection, location: str, store: int) -> tuple[str | None, int | None]:
    """Return model and dimension of a store.

    Raises:
        CollectionError: the store was dropped.
        psycopg.OperationalError: its tables were restored meanwhile; what was numbered again is seen on a new
            connection.
    """
    found = connection.execute(_SELECT, (store,)).fetchone()
    if found is None:
        raise dropped(location)
    tables, model, dimension = found
    check_tables(connection, tables)
    return model, dimension


def check_tables(connection: Connection, tables: int) -> None:
    """Treat a connection as lost when the table `stores` is another one than when it was opened.

    Raises:
        psycopg.OperationalError: the tables were restored meanwhile.
    """
    if connection.tables not in (None, tables):
        raise psycopg.OperationalError("the tables were replaced, as by restoring a backup")


def dropped(location: str) -> CollectionError:
    """Return the error of a store that is not there any more."""
    return CollectionError(location, "the store was dropped; open it again to begin with an empty one.")
