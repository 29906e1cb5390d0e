"""Commands on stores of a database, as whoever misspells something meets them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from typer.testing import CliRunner, Result

from devmem.cli.app import app
from tools.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

WORKFLOW = """
memory:
  - name: notes
    type: simple
    config: {{memory_path: "{url}"{more}}}
"""


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def other_database(postgres_server: PostgresServer) -> Iterator[str]:
    """A database of its own, without tables."""
    with closing(psycopg.connect(postgres_server.url(), autocommit=True)) as connection:
        connection.execute("CREATE DATABASE others TEMPLATE template0")
        yield "others"
        connection.execute("DROP DATABASE others WITH (FORCE)")


@pytest.mark.parametrize("command", [("list",), ("search", "launch"), ("history", "some-id"), ("runs",)])
def test_a_command_that_reads_makes_neither_tables_nor_a_store(
    postgres_server: PostgresServer, other_database: str, command: tuple[str, ...]
) -> None:
    url = postgres_server.url(other_database, store="misspelled")
    result = CliRunner().invoke(app, [command[0], url, *command[1:]])
    assert "store=misspelled does not exist yet" in result.output
    with closing(psycopg.connect(postgres_server.url(other_database))) as connection:
        assert connection.execute("SELECT to_regnamespace('devmem')").fetchone() == (None,)


def test_reindex_counts_the_items_of_the_store_that_the_workflow_names(
    postgres_server: PostgresServer, other_database: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its URL names none."""
    with closing(psycopg.connect(postgres_server.url(other_database), autocommit=True)) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        file = tmp_path_factory.mktemp("workflow") / "team.yaml"
        file.write_text(
            WORKFLOW.format(url=postgres_server.url(other_database), more=", embedding: {provider: minilm}")
        )
        run("add", file, "The launch is on June 2nd.")
        assert "notes: 0 of 1 item embedded by minilm" in run("reindex", file).stdout
        assert connection.execute("SELECT name FROM devmem.stores").fetchall() == [("notes",)]


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_text_is_refused(postgres_server: PostgresServer, encoding: str) -> None:
    name = f"in_{encoding.lower()}"
    with closing(psycopg.connect(postgres_server.url(), autocommit=True)) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
        try:
            result = run("add", postgres_server.url(name), "茶", code=2)
            assert f"has the encoding {encoding}" in result.output
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("way", ["environment", "URL"])
def test_the_encoding_of_the_connection_holds_every_text(
    store_url: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "environment":
        monkeypatch.setenv("PGCLIENTENCODING", "latin1")
    url = store_url if way == "environment" else f"{store_url}&client_encoding=latin1"
    run("add", url, "茶 in the morning")
    assert "茶" in run("search", store_url, "茶").stdout


def test_a_timeout_below_a_millisecond_is_not_unlimited(store_url: str) -> None:
    run("add", store_url, "hello")
    assert "longer than `statement_timeout`" in run("list", f"{store_url}&statement_timeout=0.0001", code=2).output


def test_sessions_that_are_read_only_by_default_read_earlier_and_archived_items(
    store_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As those of a service that takes no writes while its disk is full: an export and a copy are the way out."""
    folder = tmp_path_factory.mktemp("exports")
    run("add", store_url, "hello")
    read_only = f"{store_url}&options=-c%20default_transaction_read_only%3Don"
    run("export", read_only, "--output", folder / "notes.json")
    assert "hello" in (folder / "notes.json").read_text("utf-8")
    assert "1 stored" in run("copy", read_only, folder / "notes.db").output
    assert "hello" in run("list", read_only, "--as-of", "2999-01-01").output
    assert "the server accepts no writes" in run("add", read_only, "more", code=2).output
