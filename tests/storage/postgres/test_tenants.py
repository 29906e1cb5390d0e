"""Many tenants in one database: row-level security with real roles, and dropping a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from devmem.errors import CollectionError
from devmem.messages import AttachmentRef, MessageBlock
from devmem.model.items import MemoryContentSnapshot, MemoryItem, Scope, SnapshotBlock
from devmem.storage import EraseRequest, Filter, SearchQuery
from devmem.storage.attachments import INLINE_LIMIT
from devmem.storage.postgres.collection import PostgresCollection, drop_store
from devmem.storage.postgres.database import composed
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.schema import STORE_TABLES
from tools.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

PICTURE = "data:image/png;base64," + "AAAA" * INLINE_LIMIT
GRANTS = """
GRANT USAGE ON SCHEMA devmem TO app;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA devmem TO app;
REVOKE INSERT, UPDATE, DELETE ON devmem.properties FROM app
"""


class Secured:
    """A database whose tables `owner` owns and `app` uses, both ordinary users."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self._server, self._name = server, name
        with self.connect("postgres", "postgres") as administrator:
            for user in ("owner", "app"):
                administrator.execute(f"DO $$ BEGIN CREATE ROLE {user} LOGIN; EXCEPTION WHEN OTHERS THEN END $$")
            administrator.execute(f"CREATE DATABASE {name} OWNER owner")
        with self.connect("postgres") as administrator:
            administrator.execute("CREATE EXTENSION vector")

    def url(self, tenant: str, user: str = "app", **parameters: str) -> str:
        url = self._server.url(self._name, tenant=tenant, store="notes", row_security="on", **parameters)
        return url.replace("postgres@", f"{user}@", 1)

    def connect(self, user: str = "app", database: str | None = None) -> psycopg.Connection[tuple[object, ...]]:
        url = self._server.url(database or self._name).replace("postgres@", f"{user}@", 1)
        return psycopg.connect(Location.parse(url).conninfo, autocommit=True)

    def fill(self, tenant: str, user: str = "app", **parameters: str) -> None:
        with closing(PostgresCollection(self.url(tenant, user, **parameters))) as notes:
            ref = AttachmentRef(attachment_id="rocket", mime_type="image/png", data_uri=PICTURE)
            block = SnapshotBlock(block=MessageBlock(type="image", attachment=ref))
            shown = MemoryContentSnapshot(text="the rocket", blocks=(block,))
            notes.add([MemoryItem(id="launch", content_summary=f"The launch of {tenant}.", input_snapshot=shown)])
            notes.states.write({("kind", "name"): tenant.encode()})


@contextmanager
def secured_database(server: PostgresServer, name: str) -> Iterator[Secured]:
    """Make a database with three tenants, and drop it at the end."""
    found = Secured(server, name)
    found.fill("acme", "owner")
    found.fill("large", "owner")
    with found.connect("owner") as owner:
        owner.execute(GRANTS)
    found.fill("zeta")
    yield found
    with found.connect("postgres", "postgres") as administrator:
        administrator.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def secured(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[Secured]:
    with secured_database(postgres_server, f"db{abs(hash(request.node.nodeid))}") as found:
        yield found


def texts(url: str) -> list[str]:
    with closing(PostgresCollection(url)) as notes:
        return [hit.item.content_summary for hit in notes.search(SearchQuery(text="launch", limit=10))]


def test_each_tenant_finds_its_own(secured: Secured) -> None:
    for user in ("app", "owner"):
        for tenant in ("acme", "large", "zeta"):
            assert texts(secured.url(tenant, user)) == [f"The launch of {tenant}."]


def test_a_large_batch_is_stored_under_row_level_security(secured: Secured) -> None:
    """The server refuses COPY then."""
    items = [MemoryItem(id=str(at), content_summary=f"Rocket number {at}.") for at in range(100)]
    with closing(PostgresCollection(secured.url("zeta"))) as notes:
        notes.add(items)
        assert notes.count() == 101
    with closing(PostgresCollection(secured.url("acme"))) as notes:
        assert notes.count() == 1


@pytest.mark.parametrize("user", ["app", "owner"])
def test_whoever_names_no_tenant_gets_an_error(secured: Secured, user: str) -> None:
    with secured.connect(user) as connection:
        connection.execute("SET search_path = devmem")
        for table in ["stores", *STORE_TABLES]:
            with pytest.raises(psycopg.errors.UndefinedObject, match=r"devmem\.tenant"):
                connection.execute(f"SELECT * FROM {table}")


OTHERS = ("acme", "large")
TRICKS = """
CREATE FUNCTION pg_temp.tell(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001
    AS $$ BEGIN RAISE NOTICE 'told %', $1; RETURN true; END $$;
CREATE TEMP VIEW seen AS SELECT * FROM items;
CREATE FUNCTION pg_temp.every() RETURNS SETOF items LANGUAGE sql SECURITY DEFINER AS 'SELECT * FROM devmem.items'
"""
READS = [
    *(f"SELECT * FROM {table} WHERE pg_temp.tell({table}::text)" for table in ("stores", *STORE_TABLES)),
    "SELECT * FROM seen WHERE pg_temp.tell(body)",
    "SELECT * FROM pg_temp.every() WHERE pg_temp.tell(body)",
    "SELECT * FROM items JOIN stores USING (store) WHERE pg_temp.tell(body || tenant)",
    "SELECT * FROM ONLY items TABLESAMPLE SYSTEM (100)",
    "SELECT body::integer FROM items WHERE body LIKE '%acme%'",
    "SELECT 1 / (CASE WHEN body LIKE '%acme%' THEN 0 ELSE 1 END) FROM items",
    "EXPLAIN ANALYZE SELECT * FROM items WHERE body LIKE '%a%'",
    "SELECT * FROM pg_stats WHERE schemaname = 'devmem'",
    "SELECT * FROM pg_stats_ext",
    "SELECT query FROM pg_stat_activity",
]
"""Queries by which a tenant tries to see rows of others: through functions, views, errors, plans and statistics."""
WRITES = [
    "INSERT INTO states(store, tenant, kind, name, value) SELECT {store}, 'acme', kind, name, value FROM states",
    "INSERT INTO states(store, tenant, kind, name, value) SELECT {store}, 'acme', kind, name, value FROM states "
    "ON CONFLICT DO NOTHING",
    "INSERT INTO states(store, tenant, kind, name, value) SELECT {store}, 'acme', kind, name, value FROM states "
    "ON CONFLICT (store, kind, name, tenant) DO UPDATE SET value = 'x' RETURNING *",
    "INSERT INTO attachments VALUES ({store}, 'acme', 'x', 'x')",
    "INSERT INTO attachment_uses SELECT {store}, 'acme', sha256, 1 FROM attachments",
    "UPDATE items SET tenant = 'acme'",
    "UPDATE items SET store = {store}, tenant = 'acme'",
    "UPDATE stores SET tenant = 'acme'",
    "INSERT INTO stores(store, tenant, name, analysis) VALUES ({more}, 'acme', 'more', '1')",
    "INSERT INTO stores(store, tenant, name, analysis) VALUES ({more}, 'zeta', 'more', '1')",
    "INSERT INTO stores(store, tenant, name, analysis) VALUES ({store}, 'zeta', 'more', '1')",
    "UPDATE stores SET store = {more}",
    "UPDATE properties SET value = 'off' WHERE name = 'row_security'",
    "UPDATE properties SET value = '99' WHERE name = 'version'",
    "DELETE FROM properties",
    "TRUNCATE items",
    "ALTER TABLE items DISABLE ROW LEVEL SECURITY",
    "ALTER POLICY devmem_tenant ON items USING (true)",
    "SET row_security = off; SELECT * FROM items",
    "SET ROLE owner",
    "CREATE FUNCTION devmem.evil() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
]


def test_a_tenant_learns_nothing_of_another(secured: Secured) -> None:
    """Whatever a query of its session asks, in the rows, in notices, in plans, in errors and in statistics."""
    told: list[object] = []
    with secured.connect("postgres") as administrator:
        administrator.execute("ANALYZE")
    with secured.connect() as connection:
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
        connection.execute("SET search_path = devmem")
        connection.execute("SET devmem.tenant = 'zeta'")
        connection.execute(composed(TRICKS))
        for query in READS:
            try:
                told += connection.execute(composed(query)).fetchall()
            except psycopg.Error as error:
                told += [str(error), error.diag.message_detail]
    assert "The launch of zeta" in str(told)
    assert [
        one for one in map(str, told) if any(f"launch of {name}" in one or f"'{name}'" in one for name in OTHERS)
    ] == []


def test_a_tenant_writes_nothing_for_another(secured: Secured) -> None:
    """Nor does an error tell it what is there."""
    with secured.connect("postgres") as administrator:
        ((store,),) = administrator.execute("SELECT store FROM devmem.stores WHERE tenant = 'acme'").fetchall()
    more = Location.parse("postgresql:///x?tenant=acme&store=more").number
    accepted, told = list[str](), list[str]()
    with secured.connect() as connection:
        for statement in WRITES:
            connection.execute("SET row_security = on; SET search_path = devmem; SET devmem.tenant = 'zeta'")
            try:
                connection.execute(composed(statement.format(store=store, more=more)))
                accepted.append(statement)
            except psycopg.Error as error:
                told.append(f"{error}{error.diag.message_detail}")
    assert accepted == []
    assert "launch" not in str(told)
    for tenant in (*OTHERS, "zeta"):
        assert texts(secured.url(tenant)) == [f"The launch of {tenant}."]


def test_rows_with_the_number_of_another_tenants_store_meet_none_of_its_own(secured: Secured) -> None:
    """Neither an error nor a conflict tells what is there, and the other tenant does not see them."""
    copied = "INSERT INTO states(store, kind, name, value) SELECT {store}, kind, name, 'x' FROM states"
    with secured.connect("postgres") as administrator:
        ((store,),) = administrator.execute("SELECT store FROM devmem.stores WHERE tenant = 'acme'").fetchall()
        ((kind, name, value),) = administrator.execute(
            "SELECT kind, name, value FROM devmem.states WHERE tenant = 'acme'"
        ).fetchall()
    with secured.connect() as connection:
        connection.execute("SET search_path = devmem; SET devmem.tenant = 'zeta'")
        assert connection.execute(composed(f"{copied.format(store=store)} ON CONFLICT DO NOTHING")).rowcount == 1
    with closing(PostgresCollection(secured.url("acme"))) as notes:
        assert notes.states.get([(str(kind), str(name))]) == {(kind, name): value}


_READ = """
SELECT sum(seq_tup_read + COALESCE(idx_tup_fetch, 0)), sum((
    SELECT sum(idx_tup_read) FROM pg_stat_user_indexes AS one WHERE one.relid = found.relid
)) FROM pg_stat_user_tables AS found WHERE schemaname = 'devmem'
"""
"""Selects how many rows, and entries of indexes, were read since the database was made."""


def _rows_read(secured: Secured) -> tuple[int, int]:
    with secured.connect("postgres") as administrator:
        # A session adds what it has read when it ends.
        while administrator.execute("SELECT FROM pg_stat_activity WHERE usename = 'app'").rowcount:
            pass
        ((rows, entries),) = administrator.execute(_READ).fetchall()
        return int(str(rows)), int(str(entries))


def _ask(secured: Secured, name: str) -> list[object]:
    """As one tenant, ask in every way whether there is something of a name; return the answers."""
    by_user = Filter(scope=Scope(user=name))
    with closing(PostgresCollection(secured.url("zeta"))) as notes:
        return [
            notes.get([name]),
            notes.search(SearchQuery(text=name, limit=10)),
            notes.search(SearchQuery(text="launch", limit=10, where=by_user)),
            notes.count(by_user),
            notes.recent(10, by_user),
            list(notes.select_erasable(EraseRequest(ids=(name,)))),
            notes.history(name),
            notes.delete(ids=[name]),
            notes.states.get([("kind", name)]),
            [each.status for each in notes.add([MemoryItem(id=name, content_summary=name)])],
            notes.delete(ids=[name]),
        ]


def test_what_another_tenant_has_changes_neither_answers_nor_what_is_read_for_them(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By which the time of a call, or an error, would tell of it."""
    # Now and then a transaction also reads what is old.
    monkeypatch.setattr("devmem.storage.postgres.transactions._PRUNED_EVERY", 10**9)
    read, answers = list[list[int]](), list[list[object]]()
    for name in ("secret", "hidden"):
        with secured_database(postgres_server, name) as secured:
            with closing(PostgresCollection(secured.url("acme"))) as notes:
                scope = Scope(user=name)
                notes.add([MemoryItem(id=f"{name}{at}", content_summary="xylophone", scope=scope) for at in range(200)])
                notes.add([MemoryItem(id=name, content_summary=name, scope=scope)])
                notes.states.write({("kind", name): b"x"})
            with secured.connect("postgres") as administrator:
                # Statistics of all tenants, from which plans are made.
                administrator.execute("ANALYZE")
            before = _rows_read(secured)
            answers.append(_ask(secured, "secret"))
            read.append([later - earlier for earlier, later in zip(before, _rows_read(secured), strict=True)])
    assert answers[0] == answers[1]
    assert read[0] == read[1]


def test_every_index_begins_with_the_store(secured: Secured) -> None:
    query = (
        "SELECT relname, pg_get_indexdef(indexrelid, 1, false) FROM pg_index JOIN pg_class ON pg_class.oid = indrelid "
        "WHERE relkind = 'r' AND relname <> 'properties' AND relnamespace = 'devmem'::regnamespace"
    )
    with secured.connect("postgres") as administrator:
        indexes = administrator.execute(query).fetchall()
    assert {table for table, _ in indexes} == {"stores", *STORE_TABLES}
    # Terms are hashed together with the store.
    assert {column for _, column in indexes} == {"store", "terms"}


def test_a_store_is_dropped_and_the_others_stay(secured: Secured) -> None:
    with closing(PostgresCollection(secured.url("large"))) as reader:
        assert len(reader.search(SearchQuery(text="launch", limit=10))) == 1
        assert drop_store(secured.url("large"))
        assert drop_store(secured.url("zeta"))
        assert not drop_store(secured.url("zeta"))
        with pytest.raises(CollectionError, match="the store was dropped"):
            reader.search(SearchQuery(text="launch", limit=10))
        with pytest.raises(CollectionError, match="the store was dropped"):
            reader.add([MemoryItem(content_summary="too late")])
        with pytest.raises(CollectionError, match="the store was dropped"):
            reader.states.write({("kind", "name"): b"too late"})
    assert texts(secured.url("acme")) == ["The launch of acme."]
    with secured.connect("postgres") as administrator:
        counts = [
            administrator.execute(f"SELECT count(DISTINCT store) FROM devmem.{table}").fetchone()
            for table in ("stores", "items", "passages", "states", "attachments", "attachment_uses")
        ]
        assert counts == [(1,)] * 6
    assert texts(secured.url("large", "owner")) == []
