"""Locations: which of them are files, and which URLs can keep what a store keeps beside its items."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from devmem.config import parse_workflow
from devmem.errors import CollectionError, ConfigError
from devmem.plugins import registry
from devmem.redaction import without_credentials
from devmem.storage import check_location, file_of, open_collection, states_of


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


def test_states_are_kept_by_files_and_postgresql() -> None:
    for location in ("notes.db", "json:///notes.json", "postgresql://localhost/team"):
        check_location(location, states=True)


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
