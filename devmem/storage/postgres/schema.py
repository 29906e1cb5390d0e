"""The tables of a PostgreSQL database, and the rules by which they may be distributed over machines.

`store` begins every primary key, unique index and foreign key, and its number is a hash of tenant and name that the
client makes. Rows are numbered by a counter in the row of the store, which every writing transaction updates first: so
numbers ascend in the order of commits, and nothing depends on sequences, transaction ids or snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from psycopg import errors, sql

from devmem.errors import CollectionError, CollectionUnwritableError
from devmem.storage.postgres.database import Connection, composed
from devmem.storage.postgres.location import Location

SCHEMA_VERSION: Final = 1
_SCHEMA_LOCK: Final = 0x6465766D656D
"""Key of the advisory lock: the letters of the package's name."""
PASSAGE_BITS: Final = 20
"""A passage's number is its item's row, shifted by these, and its place in the item."""

_ITEM: Final = """
    store bigint NOT NULL,
    row bigint NOT NULL,
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
    operation text,
    change_run text COLLATE "C",
    recorded_from bigint,
    change_actor text COLLATE "C",
    PRIMARY KEY (store, row)
"""
_PASSAGE: Final = """
    store bigint NOT NULL,
    passage bigint NOT NULL,
    terms integer[] NOT NULL,
    counts bytea NOT NULL,
    length integer NOT NULL,
    PRIMARY KEY (store, passage)
"""
_VECTOR: Final = """
    store bigint NOT NULL,
    passage bigint NOT NULL,
    vector vector NOT NULL,
    PRIMARY KEY (store, passage)
"""
_TOKENS: Final = """
    store bigint NOT NULL,
    passage bigint NOT NULL,
    codes bytea NOT NULL,
    PRIMARY KEY (store, passage)
"""
# Codes of more than 2 KB would be kept apart from their row, where reading them takes twice as long. Words are looked
# up in an index on hashes of the store and a term, so that a small store does not read the postings of all others.
_STATEMENTS: Final = f"""
CREATE TABLE properties(name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE stores(
    store bigint PRIMARY KEY,
    tenant text NOT NULL,
    name text NOT NULL,
    store_type text,
    analysis text NOT NULL,
    model text,
    dimension integer,
    changes bigint NOT NULL DEFAULT 0,
    next_row bigint NOT NULL DEFAULT 1,
    texts bigint NOT NULL DEFAULT 0,
    total_length bigint NOT NULL DEFAULT 0,
    CHECK (store = (('x' || left(encode(sha256(convert_to(length(tenant) || ':' || tenant || name, 'UTF8')), 'hex'), 16)
        )::bit(64) >> 1)::bigint)
) WITH (fillfactor = 50);
CREATE TABLE commits(
    store bigint NOT NULL,
    token uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (store, token)
);
CREATE TABLE terms(
    store bigint NOT NULL,
    term integer NOT NULL,
    texts integer NOT NULL,
    PRIMARY KEY (store, term)
) WITH (fillfactor = 80);
CREATE TABLE items({_ITEM});
CREATE UNIQUE INDEX items_by_id ON items(store, id_key);
CREATE INDEX items_by_content ON items(store, content_key);
CREATE INDEX items_by_time ON items(store, (COALESCE(event_time, created_at)));
CREATE INDEX items_of_user ON items(store, "user", agent, conversation) INCLUDE (row, expires_at);
CREATE INDEX items_by_source ON items(store, "user", agent, source_name);
CREATE INDEX items_by_turn ON items(store, conversation, row) WHERE conversation IS NOT NULL;
CREATE INDEX items_by_turn_of_session ON items(store, session, row) WHERE session IS NOT NULL;
CREATE INDEX items_by_trace ON items(store, trace) WHERE trace IS NOT NULL;
CREATE INDEX items_expiring ON items(store, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX items_waiting ON items(store, row) WHERE waiting;
CREATE INDEX items_standing ON items(store, row) WHERE cues & 12 <> 0;
CREATE INDEX items_by_change_run ON items(store, change_run) WHERE change_run IS NOT NULL;
CREATE TABLE passages({_PASSAGE});
CREATE INDEX passages_by_term ON passages USING gin (terms) WITH (gin_pending_list_limit = 256);
CREATE TABLE vectors({_VECTOR});
CREATE TABLE tokens({_TOKENS});
CREATE TABLE versions({_ITEM},
    recorded_until bigint,
    end_operation text,
    end_run text COLLATE "C",
    end_actor text COLLATE "C",
    base bigint,
    archived boolean
);
CREATE INDEX versions_by_id ON versions(store, id_key);
CREATE INDEX versions_by_end ON versions(store, recorded_until);
CREATE INDEX versions_past ON versions(store, recorded_until) WHERE archived IS NULL;
CREATE INDEX versions_archived ON versions(store, id_key) WHERE archived;
CREATE INDEX versions_by_change_run ON versions(store, change_run) WHERE change_run IS NOT NULL;
CREATE INDEX versions_by_end_run ON versions(store, end_run) WHERE end_run IS NOT NULL;
CREATE UNIQUE INDEX versions_pending ON versions(store, change_run, id_key) WHERE recorded_until IS NULL;
CREATE INDEX versions_expiring ON versions(store, expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE version_passages({_PASSAGE});
CREATE TABLE version_vectors({_VECTOR});
CREATE TABLE version_tokens({_TOKENS});
ALTER TABLE tokens ALTER codes SET STORAGE MAIN;
ALTER TABLE version_tokens ALTER codes SET STORAGE MAIN;
CREATE TABLE runs(
    store bigint NOT NULL,
    run text COLLATE "C" NOT NULL,
    state text NOT NULL,
    actor text COLLATE "C",
    started_at bigint NOT NULL,
    committed_at bigint,
    ended_at bigint,
    PRIMARY KEY (store, run)
);
CREATE TABLE erasures(
    store bigint NOT NULL,
    plan uuid NOT NULL,
    place integer NOT NULL,
    id text COLLATE "C",
    row bigint,
    backend integer,
    backend_start timestamptz,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (store, plan, place)
);
CREATE TABLE attachments(
    store bigint NOT NULL,
    sha256 text NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (store, sha256)
);
CREATE TABLE attachment_uses(
    store bigint NOT NULL,
    sha256 text NOT NULL,
    row bigint NOT NULL,
    PRIMARY KEY (store, sha256, row),
    FOREIGN KEY (store, sha256) REFERENCES attachments
);
CREATE INDEX attachment_uses_by_row ON attachment_uses(store, row);
CREATE TABLE states(
    store bigint NOT NULL,
    kind text NOT NULL,
    name_key uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    value bytea NOT NULL,
    PRIMARY KEY (store, kind, name_key)
)
"""
STORE_TABLES: Final = (
    "commits", "terms", "items", "passages", "vectors", "tokens", "versions", "version_passages", "version_vectors",
    "version_tokens", "runs", "erasures", "attachment_uses", "attachments", "states",
)  # fmt: skip
"""Tables with what a store holds, each of which may be emptied before those that follow."""


def lock_schema(connection: Connection) -> None:
    """Let no other transaction make tables, or the extension, in this database until this one ends."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))


def table_of(name: str) -> str:
    """Return the expression of devmem's own table or index, null where there is none; `name` is an expression.

    A name alone would be looked up in the schema `public` too.
    """
    return f"to_regclass(quote_ident(current_schema()) || '.' || {name})"


def recorded_properties(connection: Connection, schema: str) -> dict[str, str]:
    """Return what is recorded about the tables; nothing where there are none."""
    name = sql.Identifier(schema, "properties")
    (there,) = connection.execute("SELECT to_regclass(%s)", (name.as_string(connection),)).fetchone() or (None,)
    if there is None:
        return {}
    return dict(connection.execute(sql.SQL("SELECT name, value FROM {}").format(name)).fetchall())


def prepare_database(connection: Connection, location: Location) -> None:
    """Make the tables where there are none, and secure them where the URL asks for it.

    Args:
        connection: in a write transaction.
        location: of the store that is opened.

    Raises:
        CollectionError: the tables are of another version, or the extension is missing.
        CollectionUnwritableError: only the owner of the tables may secure them.
    """
    if _is_prepared(connection, location):
        return
    lock_schema(connection)
    # Another process may have been faster.
    if _is_prepared(connection, location):
        return
    if not recorded_properties(connection, location.schema):
        _create(connection, location)
    elif not owns_tables(connection):
        raise CollectionUnwritableError(
            str(location), "row-level security is new: open a store in this database once as the owner of the tables."
        )
    if location.row_security:
        _secure(connection)


def _is_prepared(connection: Connection, location: Location) -> bool:
    found = recorded_properties(connection, location.schema)
    if not found:
        return False
    if found.get("version") != str(SCHEMA_VERSION):
        raise CollectionError(
            str(location),
            f"has tables of schema {found.get('version')}, and this devmem uses schema {SCHEMA_VERSION}: open "
            "them with the devmem that made them, or name another schema.",
        )
    return not location.row_security or found.get("row_security") == "on"


def _create(connection: Connection, location: Location) -> None:
    connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(location.schema)))
    try:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
    except (errors.FeatureNotSupported, errors.UndefinedFile, errors.InsufficientPrivilege) as error:
        raise CollectionError(
            str(location),
            "needs the extension `vector` (pgvector 0.8 or newer): install it on the server and have its administrator "
            "run CREATE EXTENSION vector in this database.",
        ) from error
    _run(connection, _STATEMENTS.strip().split(";\n"))
    connection.execute("INSERT INTO properties(name, value) VALUES ('version', %s)", (str(SCHEMA_VERSION),))


_TENANT: Final = "current_setting('devmem.tenant')"


def _secure(connection: Connection) -> None:
    """Show each tenant the rows of its own stores; the owner of the tables is subject to it too, superusers never."""
    conditions = dict.fromkeys(STORE_TABLES, f"store IN (SELECT store FROM stores WHERE tenant = {_TENANT})")
    for table, condition in {"stores": f"tenant = {_TENANT}", **conditions}.items():
        _run(
            connection,
            (
                f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
                f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
                f"DROP POLICY IF EXISTS devmem_tenant ON {table}",
                f"CREATE POLICY devmem_tenant ON {table} USING ({condition})",
            ),
        )
    connection.execute("INSERT INTO properties(name, value) VALUES ('row_security', 'on') ON CONFLICT DO NOTHING")


def owns_tables(connection: Connection) -> bool:
    """Whether the connection's user may change the tables."""
    query = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'stores'::regclass"
    return bool((connection.execute(query).fetchone() or (False,))[0])


def _run(connection: Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.execute(composed(statement))


def dropped(location: str) -> CollectionError:
    """Return the error of a store that is not there any more."""
    return CollectionError(location, "the store was dropped; open it again to begin with an empty one.")
