"""The tables of a PostgreSQL database.

Every table with items begins with the store, by which it is partitioned: one partition holds all stores that have none
of their own. `commits` has a token of each recent transaction, by which a client whose connection was lost finds out
whether it was committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from devmem.collections.postgres.search_tables import (
    CODE_TABLES,
    COUNT_ERASURES,
    CREATE_CODE_TABLES,
    CREATE_SEARCH_TABLES,
    INLINE_TOKENS,
    MARK_SEGMENTS,
    SEARCH_TABLES,
)
from devmem.collections.postgres.version_tables import CREATE_VERSION_TABLES, VERSION_TABLES

SCHEMA_VERSION: Final = 7
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
    metadata jsonb NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (store, row)
) PARTITION BY LIST (store);
CREATE UNIQUE INDEX items_by_id ON items(store, id_key);
CREATE INDEX items_by_content ON items(store, content_key);
CREATE INDEX items_by_xact ON items(store, xact);
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
