"""Locations name a collection by their form or URL scheme, which any package may bring; passwords stay secret."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from devmem import MemoryItem
from devmem.config import parse_workflow
from devmem.errors import CollectionError, ConfigError, MissingExtraError
from devmem.plugins import registry
from devmem.redaction import without_credentials
from devmem.storage import (
    CollectionInfo,
    JsonCollection,
    SqliteCollection,
    check_location,
    file_of,
    open_collection,
    states_of,
)
from devmem.stores import ModelIdentity
from tests.plugins.strangers import install


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("memory/notes.db", "memory/notes.db"),
        (":memory:", ":memory:"),
        ("sqlite:///notes.db", "notes.db"),
        ("sqlite:////tmp/notes.db", "/tmp/notes.db"),
        ("JSON:///notes.json", "notes.json"),
        ("postgresql://localhost/team", None),
        ("cloud://host", None),
    ],
)
def test_the_path_of_a_location(location: str, path: str | None) -> None:
    assert file_of(location) == path


@pytest.mark.parametrize("location", ["sqlite://notes.db", "json:notes://x", "json://notes.json"])
def test_a_files_url_has_three_slashes(location: str) -> None:
    with pytest.raises(CollectionError):
        open_collection(location)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("postgresql:/ann:pw@host/team", "two slashes after the colon"),
        ("sqlite:notes.db", "two slashes after the colon"),
        ("host=localhost dbname=team user=ann", "write it as a URL"),
    ],
)
def test_a_misspelled_url_does_not_become_a_file(location: str, message: str, tmp_path: Path) -> None:
    for use in (file_of, open_collection, lambda place: check_location(place, states=False)):
        with pytest.raises(CollectionError, match=message):
            use(location)
    declaration = json.dumps({"memory": [{"name": "notes", "type": "simple", "config": {"memory_path": location}}]})
    with pytest.raises(ConfigError, match=message):
        parse_workflow(declaration, registry, base_dir=tmp_path)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://ann:pw@host/v1", "https://***@host/v1"),
        ("https://ann:p/w@host/v1 failed", "https://***@host/v1 failed"),
        ("https://host:8080/@ann/posts", "https://host:8080/@ann/posts"),
        ("https://host/@ann and ben@host", "https://host/@ann and ben@host"),
        ("at postgresql://ann:p#w/x?y@host/team?store=a@b", "at postgresql://***@host/team?store=a@b"),
        ("host=h password=p#w user=ann", "host=h password=*** user=ann"),
        ("?pasword=pw&sslpassword=x&passfile=y", "?pasword=***&sslpassword=***&passfile=y"),
    ],
)
def test_messages_show_no_user_and_no_password(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


@pytest.mark.parametrize("location", [None, "notes.db", "notes.json"])
def test_values_of_a_store(location: str | None, tmp_path: Path) -> None:
    """They are changed by compare-and-set, and a file has them when it is opened again."""
    place = None if location is None else str(tmp_path / location)
    with closing(open_collection(place)) as collection:
        states = states_of(collection)
        assert states.write({("a", "x"): b"1", ("a", "w"): b"2", ("b", "x"): b"3"})
        assert not states.write({("a", "x"): b"4"}, expected={("a", "x"): b"2"})
        assert states.write({("a", "x"): b"5", ("b", "x"): None}, expected={("a", "x"): b"1", ("c", "x"): None})
        assert states.get([("a", "x"), ("b", "x")]) == {("a", "x"): b"5"}
        assert (states.names("a"), list(states.scan("b"))) == (["w", "x"], [])
    if place is not None:
        with closing(open_collection(place)) as collection:
            assert list(states_of(collection).scan("a")) == [("w", b"2"), ("x", b"5")]
    with pytest.raises(CollectionError, match="closed"):
        states.names("a")


def test_a_collection_without_a_place_for_states_says_so() -> None:
    with closing(open_collection(None)) as collection, pytest.raises(CollectionError, match="keeps items alone"):
        states_of(collection.as_of(5.0))  # type: ignore[attr-defined]


def test_a_path_or_nothing_names_a_collection(tmp_path: Path) -> None:
    opened: list[Any] = [open_collection(place) for place in (None, str(tmp_path / "a.json"), str(tmp_path / "a.db"))]
    assert [type(one) for one in opened] == [SqliteCollection, JsonCollection, SqliteCollection]
    for one in opened:
        one.close()


@pytest.mark.parametrize("name", ["sqlite", "json"])
def test_a_file_has_a_url(tmp_path: Path, name: str) -> None:
    path = tmp_path / "store.db"
    by_url = open_collection(f"{name}:///{path}")
    by_url.add([MemoryItem(id="1", content_summary="kept")])
    by_url.close()
    kind = {"sqlite": SqliteCollection, "json": JsonCollection}[name]
    again = kind(path)
    assert [item.id for item in again.recent(5)] == ["1"]
    again.close()


def test_postgresql_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("devmem.storage.postgres.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"\[postgres\]"):
        open_collection("postgresql://host/db")


def test_an_unknown_scheme_names_those_that_are_known() -> None:
    with pytest.raises(
        CollectionError,
        match=r"'sqlit' URLs; did you mean 'sqlite'\? Known schemes: json, postgres, postgresql, sqlite;",
    ):
        open_collection("sqlit:///store.db")


REFUSING = """
from devmem.errors import CollectionError

def open_cloud(location, name, **options):
    if name == "x":
        return location, name, options
    raise CollectionError(location, f"no answer from {location}")
"""


def test_a_strangers_scheme_gets_the_url_and_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A password in it is not in the error that the stranger raises."""
    point, modules = {"cloud": "refusing_opener:open_cloud"}, {"refusing_opener": REFUSING}
    monkeypatch.syspath_prepend(install(tmp_path, "cloud-dist", point, modules, group="devmem.collections"))
    model = ModelIdentity(name="m", dimension=3)
    opened: Any = open_collection("Cloud://host/x", name="x", model=model, store_type="notes")
    assert opened == ("Cloud://host/x", "x", {"model": model, "store_type": "notes"})
    with pytest.raises(CollectionError, match="no answer from") as caught:
        open_collection("cloud://ann:hunter2@host/x")
    assert "hunter2" not in str(caught.value) + repr(caught.value) + caught.value.location


@pytest.mark.parametrize("url", ["oracle://ann:hunter2@host/db", "sqlit://ann:hunter2@host/db"])
def test_a_password_is_not_in_the_error_of_an_unknown_scheme(url: str) -> None:
    with pytest.raises(CollectionError) as caught:
        open_collection(url)
    assert "://***@host/db" in caught.value.location
    assert not [text for text in (str(caught.value), repr(caught.value), caught.value.location) if "hunter2" in text]


def test_a_password_is_not_in_what_a_collection_reports() -> None:
    info = CollectionInfo(
        location="cloud://ann:hunter2@host/x", items=0, waiting=0, size_bytes=0, embedding=None, dimension=None
    )
    assert info.location == "cloud://***@host/x"
    assert "hunter2" not in repr(info)
