"""The tables of a PostgreSQL database, and the rules by which they may be distributed over machines.

`store` begins every primary key, unique index and foreign key, and its number is a hash of tenant and name that the
client makes. Rows are numbered by a counter in the row of the store, which every writing transaction updates first: so
numbers ascend in the order of commits, and nothing depends on sequences, transaction ids or snapshots. Each row names
its tenant, since a policy cannot look it up in another table there, and ends its keys with it, so that no tenant's row
is in the way of another's. `StoreTables` documents what the tables hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from psycopg import errors, sql

from devmem.errors import CollectionError, CollectionUnwritableError
from devmem.storage.postgres.database import Connection, composed
from devmem.storage.postgres.location import Location
from devmem.storage.sql import EVENT_TIME, columns_of_fields
from devmem.storage.tables import NOW

SCHEMA_VERSION: Final = 1
_SCHEMA_LOCK: Final = 0x6465766D656D
"""Key of the advisory lock: the letters of the package's name."""
PASSAGE_BITS: Final = 20
"""A passage's number is its item's row, shifted by these, and its place in the item."""
SAMPLING: Final = 16
"""Number of passages of which one is in the sample by which common terms are counted."""
SAMPLED: Final = f"hashint8(passage) & {SAMPLING - 1} = 0"
"""Whether a passage is in the sample."""

_TENANT: Final = "current_setting('devmem.tenant')"
_OWNED: Final = f"store bigint NOT NULL, tenant text NOT NULL DEFAULT {_TENANT}"
# Codes of more than 2 KB would be kept apart from their row, where reading them takes twice as long. Words are looked
# up in an index on hashes of the store and a term, so that a small store does not read the postings of all others; the
# last of a passage's terms stands for its item's user, as `owner` does. The nearest vectors of one user are found by
# their signs without a look at the table, whose rows are large and far from each other.
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
    recorded bigint,
    texts bigint NOT NULL DEFAULT 0,
    total_length bigint NOT NULL DEFAULT 0,
    CHECK (store = (('x' || left(encode(sha256(convert_to(length(tenant) || ':' || tenant || name, 'UTF8')), 'hex'), 16)
        )::bit(64) >> 1)::bigint)
) WITH (fillfactor = 50);
CREATE TABLE commits({_OWNED},
    token uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (store, token, tenant)
);
CREATE TABLE terms({_OWNED},
    term integer NOT NULL,
    texts integer NOT NULL,
    total_length bigint NOT NULL,
    PRIMARY KEY (store, term, tenant)
) WITH (fillfactor = 80);
CREATE TABLE items({_OWNED},
    row bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    slot text COLLATE "C" NOT NULL,
    content_hash text COLLATE "C" NOT NULL,
    created_at double precision NOT NULL,
    event_time double precision,
    expires_at double precision,
    trust double precision NOT NULL,
    importance double precision,
    {columns_of_fields('text COLLATE "C"')},
    speaker text COLLATE "C",
    cues integer NOT NULL,
    length integer NOT NULL,
    operation text NOT NULL, change_run text COLLATE "C", change_actor text COLLATE "C", began bigint,
    ended bigint, end_operation text, end_run text COLLATE "C", end_actor text COLLATE "C",
    base bigint,
    archived boolean,
    derived boolean,
    waiting boolean NOT NULL,
    refusal text,
    metadata jsonb NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (store, row, tenant),
    UNIQUE (store, id, slot, tenant)
);
CREATE INDEX items_pending ON items(store, slot) WHERE began IS NULL;
CREATE INDEX items_current ON items(store, row) WHERE {NOW};
CREATE INDEX items_by_content ON items(store, content_hash) WHERE {NOW};
CREATE INDEX items_by_time ON items(store, ({EVENT_TIME})) WHERE {NOW};
CREATE INDEX items_of_user ON items(store, "user", agent, conversation) INCLUDE (row, expires_at) WHERE {NOW};
CREATE INDEX items_by_source ON items(store, "user", source_name, agent) INCLUDE (expires_at) WHERE {NOW};
CREATE INDEX items_by_turn ON items(store, conversation, row) WHERE {NOW} AND conversation IS NOT NULL;
CREATE INDEX items_by_turn_of_session ON items(store, session, row) WHERE {NOW} AND session IS NOT NULL;
CREATE INDEX items_by_trace ON items(store, trace) WHERE {NOW} AND trace IS NOT NULL;
CREATE INDEX items_expiring ON items(store, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX items_waiting ON items(store, row) WHERE waiting;
CREATE INDEX items_standing ON items(store, row) WHERE {NOW} AND cues & 12 <> 0;
CREATE INDEX items_derived ON items(store, row) WHERE derived;
CREATE INDEX items_ended ON items(store, ended) WHERE ended IS NOT NULL AND archived IS NULL;
CREATE INDEX items_archived ON items(store, id) WHERE archived;
CREATE INDEX items_by_change_run ON items(store, change_run) WHERE change_run IS NOT NULL;
CREATE INDEX items_by_end_run ON items(store, end_run) WHERE end_run IS NOT NULL;
CREATE TABLE passages({_OWNED},
    passage bigint NOT NULL,
    is_current boolean NOT NULL,
    terms integer[] NOT NULL,
    counts bytea NOT NULL,
    length integer NOT NULL,
    PRIMARY KEY (store, passage, tenant)
);
CREATE INDEX passages_by_term ON passages USING gin (terms) WITH (gin_pending_list_limit = 256) WHERE is_current;
CREATE INDEX passages_sampled ON passages USING gin (terms) WITH (gin_pending_list_limit = 256)
    WHERE is_current AND {SAMPLED};
CREATE TABLE vectors({_OWNED},
    passage bigint NOT NULL,
    is_current boolean NOT NULL,
    owner integer NOT NULL,
    vector vector NOT NULL,
    signs bit varying NOT NULL GENERATED ALWAYS AS (binary_quantize(vector)) STORED,
    PRIMARY KEY (store, passage, tenant)
);
CREATE INDEX vectors_of_owner ON vectors(store, owner) INCLUDE (tenant, passage, signs) WHERE is_current;
CREATE TABLE tokens({_OWNED},
    passage bigint NOT NULL,
    codes bytea NOT NULL,
    PRIMARY KEY (store, passage, tenant)
);
ALTER TABLE tokens ALTER codes SET STORAGE MAIN;
CREATE TABLE runs({_OWNED},
    run text COLLATE "C" NOT NULL,
    state text NOT NULL,
    actor text COLLATE "C",
    started_at bigint NOT NULL,
    committed_at bigint,
    ended_at bigint,
    PRIMARY KEY (store, run, tenant)
);
CREATE TABLE tombstones({_OWNED},
    digest text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    whole boolean NOT NULL,
    erasure text COLLATE "C" NOT NULL,
    erased_at double precision NOT NULL,
    PRIMARY KEY (store, digest, tenant)
);
CREATE TABLE pending({_OWNED},
    kind text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL DEFAULT '',
    key text COLLATE "C" NOT NULL,
    payload text NOT NULL,
    PRIMARY KEY (store, kind, place, key, tenant)
);
CREATE TABLE attachments({_OWNED},
    sha256 text NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (store, sha256, tenant)
);
CREATE TABLE attachment_uses({_OWNED},
    sha256 text NOT NULL,
    row bigint NOT NULL,
    PRIMARY KEY (store, sha256, row, tenant),
    FOREIGN KEY (store, sha256, tenant) REFERENCES attachments
);
CREATE INDEX attachment_uses_by_row ON attachment_uses(store, row);
CREATE TABLE states({_OWNED},
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (store, kind, name, tenant)
)
"""
STORE_TABLES: Final = (
    "commits", "terms", "items", "passages", "vectors", "tokens", "runs", "tombstones", "pending", "attachment_uses",
    "attachments", "states",
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
    _distribute(connection)


def _distribute(connection: Connection) -> None:
    """Spread the tables by `store` where the database is one of Citus."""
    if connection.execute("SELECT to_regproc('create_distributed_table')").fetchone() == (None,):
        return
    connection.execute("SELECT create_distributed_table('stores', 'store')")
    # A table before those that refer to it.
    for table in reversed(STORE_TABLES):
        connection.execute("SELECT create_distributed_table(%s, 'store', colocate_with => 'stores')", (table,))


def _secure(connection: Connection) -> None:
    """Show each tenant the rows of its own stores; the owner of the tables is subject to it too, superusers never."""
    for table in ("stores", *STORE_TABLES):
        _run(
            connection,
            (
                f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
                f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
                f"DROP POLICY IF EXISTS devmem_tenant ON {table}",
                f"CREATE POLICY devmem_tenant ON {table} USING (tenant = {_TENANT})",
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
