"""Locations: which of them are files, and which URLs can keep what a store keeps beside its items."""

from __future__ import annotations

import pytest

from devmem.collections import check_location, file_of, open_collection, states_of
from devmem.errors import CollectionError


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


def test_states_are_kept_beside_a_file_and_in_postgresql() -> None:
    for location in ("notes.db", "json:///notes.json", "postgresql://localhost/team"):
        check_location(location, states=True)


def test_a_collection_without_a_place_for_states_says_so() -> None:
    collection = open_collection(None)
    with pytest.raises(CollectionError, match="keeps items alone"):
        states_of(collection)
    collection.close()
