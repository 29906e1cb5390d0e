"""The URL of a store, and that nothing shows its password."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from devmem.errors import CollectionError
from devmem.storage import open_collection
from devmem.storage.postgres.location import Location

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}@localhost:1/team",
        f"postgresql://ann:{SECRET}@localhost/team?no_such_parameter=1",
        f"postgresql://ann:{SECRET}@[::1/team",
        f"postgresql://ann:%zz{SECRET}@localhost/team",
        f"postgresql://ann:{SECRET}@{SECRET}@localhost/team",
        f"postgresql://ann:12/{SECRET}@localhost/team",
        f"postgresql://ann:x?{SECRET}@localhost:1/team",
        f"postgresql://ann:{SECRET}/team",
        f"postgresql://localhost:1/team?pasword={SECRET}",
        f"postgresql:/ann:{SECRET}@localhost/team",
        f"host=localhost dbname=team password={SECRET}",
    ],
)
def test_no_error_shows_the_password(url: str) -> None:
    with pytest.raises(CollectionError) as caught:
        open_collection(url, busy_timeout=2)
    shown = [str(caught.value), repr(caught.value), str(caught.value.location)]
    assert not [text for text in shown if SECRET in text]


def test_what_a_url_names() -> None:
    location = Location.parse("postgresql://db.test/team?store=notes&tenant=acme&connections=3&statement_timeout=1.5")
    assert (location.store, location.tenant, location.connections, location.statement_timeout) == (
        "notes", "acme", 3, 1.5,
    )  # fmt: skip
    assert "connections" not in location.conninfo
    assert str(location) == "postgresql://db.test/team?store=notes&tenant=acme"


def test_a_wrong_value_of_libpq_is_no_server_that_cannot_be_reached() -> None:
    with pytest.raises(CollectionError, match=r'invalid sslmode value: "bogus".*check the parameters of the URL'):
        open_collection("postgresql://127.0.0.1:1/team?sslmode=bogus", busy_timeout=2)


def test_the_workflow_names_the_store_where_the_url_does_not() -> None:
    assert Location.parse("postgresql://db.test/team", "plans").store == "plans"
    assert Location.parse("postgresql://db.test/team?store=notes", "plans").store == "notes"
    assert Location.parse("postgresql://db.test/team").store == "memory"


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ("connections=0", "connections=0 in the URL cannot be used: Input should be greater than or equal to 1"),
        ("connections=3.5", "connections=3.5 in the URL cannot be used: Input should be a valid integer"),
        ("store", "a parameter has no value"),
        ("store=notes&store=plans", "'store' stands there twice"),
        ("statement_timeout=soon", "statement_timeout=soon in the URL cannot be used: Input should be a valid number"),
        ("statement_timeout=nan", "statement_timeout=nan in the URL cannot be used"),
        ("row_security=maybe", "row_security=maybe in the URL cannot be used: Input should be a valid boolean"),
        (f"store={'x' * 501}", "store=x{40} in the URL cannot be used: String should have at most 500 characters"),
        ("tenant=a%00b", "tenant=.* in the URL cannot be used"),
        (f"schema={'é' * 32}", "schema=é* in the URL cannot be used: Value error, it has more than 63 bytes"),
        ("conections=3", "'conections' is known neither to devmem nor to libpq; did you mean 'connections'"),
    ],
)
def test_a_wrong_parameter_is_named(parameter: str, message: str) -> None:
    with pytest.raises(CollectionError, match=message):
        Location.parse(f"postgresql://db.test/team?{parameter}")


def test_what_is_for_libpq_reaches_it_as_it_was_written() -> None:
    """A plus sign is a space in devmem's own parameters, as in any URL, but not in those of libpq."""
    location = Location.parse("postgresql://db.test/team?options=-c%20work_mem%3D1MB&password=a+b&store=my+notes")
    given = conninfo_to_dict(location.conninfo)
    assert (given["options"], given["password"], location.store) == ("-c work_mem=1MB", "a+b", "my notes")


@pytest.mark.parametrize(
    ("url", "password", "host"),
    [
        (f"postgresql://ann:{SECRET}%23#@db.test/team", f"{SECRET}##", "db.test"),
        (f"postgresql://ann:a?{SECRET}@db.test/team?store=x@y", f"a?{SECRET}", "db.test"),
        (f"POSTGRESQL://ann:{SECRET}@[::1]:5433/team", SECRET, "::1"),
        (f"postgresql://ann@%2Ftmp/team?password={SECRET}&tenant=a@b", SECRET, "/tmp"),
    ],
)
def test_user_and_password_are_told_from_the_host_as_libpq_does(url: str, password: str, host: str) -> None:
    location = Location.parse(url)
    given = conninfo_to_dict(location.conninfo)
    assert (given["user"], given["password"], given["host"], given["dbname"]) == ("ann", password, host, "team")
    assert SECRET not in str(location)


def test_parameters_without_their_question_mark_are_no_database() -> None:
    with pytest.raises(CollectionError, match="begin with a question mark"):
        Location.parse("postgresql://db.test/team&connections=3")
