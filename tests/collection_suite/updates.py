"""Storing an item again: what is a duplicate, what an update, and what a conflict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from devmem import Filter, MemoryItem, Scope, WriteStatus
from devmem.errors import VersionConflictError
from devmem.storage import Collection, Unique, version_hash
from devmem.stores import Provenance, SourceKind
from tests.collection_suite.fixtures import Opening, ids, item
from tests.collection_suite.queries import add_encoded

_SAVED = item("the launch is on Friday", id="1", metadata={"room": 1}, scope=Scope(user="ann"), created_at=5.0)
_CHANGES: dict[str, dict[str, Any]] = {
    "metadata": {"metadata": {"room": 2}},
    "no metadata": {"metadata": {}},
    "event time": {"event_time": 7.0},
    "expiry": {"expires_at": 9e9},
    "trust": {"trust": 0.5},
    "scope": {"scope": Scope(user="bob")},
    "source": {"provenance": Provenance(kind=SourceKind.TOOL, name="calendar")},
}


class Updating(Opening):
    """Versions of one item."""

    @pytest.mark.parametrize("unique", list(Unique))
    @pytest.mark.parametrize("change", _CHANGES)
    def test_the_same_text_with_another_field_is_an_update(
        self, collection: Collection, change: str, unique: Unique
    ) -> None:
        """It must not be dropped as a duplicate."""
        collection.add([_SAVED])
        changed = replace(_SAVED, **_CHANGES[change])
        (outcome,) = collection.add([changed], unique=unique)
        assert (outcome.status, outcome.replaced) == (WriteStatus.SUPERSEDED, _SAVED.content_hash)
        assert list(collection.scan()) == [changed]

    @pytest.mark.parametrize("unique", list(Unique))
    def test_the_same_item_is_a_duplicate(self, collection: Collection, unique: Unique) -> None:
        """Also when it is stored later, without its embedding, or with its metadata in another order."""
        collection.add([replace(_SAVED, metadata={"a": 1, "b": [1, {"c": None}]})])
        again = replace(_SAVED, metadata={"b": [1, {"c": None}], "a": 1}, created_at=9.0, embedding=None)
        (outcome,) = collection.add([again], unique=unique)
        assert (outcome.status, outcome.item_id) == (WriteStatus.DUPLICATE, "1")
        assert [one.created_at for one in collection.scan()] == [5.0]

    def test_an_update_keeps_the_embeddings_of_its_content(self, collection: Collection) -> None:
        """Those of all passages, and their tokens; with another text it waits for new ones."""
        long = "\n\n".join(f"part {n}: " + "words " * 200 for n in range(4))
        add_encoded(collection, [item(long, id="1", embedding=None)])
        before = collection.embeddings(["1"])["1"]
        (stored,) = collection.get(["1"])
        collection.add([replace(stored, metadata={"room": 2}, embedding=None)])
        after = collection.embeddings(["1"])["1"]
        assert len(after.vectors) == len(before.vectors) > 1
        assert (after.vectors == before.vectors).all()
        assert (after.tokens is None) == (before.tokens is None)
        collection.add([MemoryItem(id="1", content_summary="another text")])
        assert ids(collection.waiting(5)) == ["1"]

    def test_compare_and_set(self, collection: Collection) -> None:
        """Of two who change the same version, the second one is told, and writes nothing."""
        collection.add([_SAVED])
        (seen,) = collection.get(["1"])
        first, second = replace(seen, metadata={"by": "first"}), replace(seen, metadata={"by": "second"})
        expected = {"1": version_hash(seen)}
        assert collection.add([first], expected=expected)[0].status is WriteStatus.SUPERSEDED
        with pytest.raises(VersionConflictError, match="'1' was changed") as error:
            collection.add([second, item("beside")], expected=expected)
        assert (error.value.expected, error.value.found) == (version_hash(seen), version_hash(first))
        assert list(collection.scan()) == [first]

    def test_compare_and_set_of_what_is_not_there(self, collection: Collection) -> None:
        """None expects no version; and a version that is gone is a conflict."""
        assert collection.add([_SAVED], expected={"1": None})[0].status is WriteStatus.STORED
        with pytest.raises(VersionConflictError, match="is stored already"):
            collection.add([_SAVED], expected={"1": None})
        collection.delete(ids=["1"])
        with pytest.raises(VersionConflictError, match="is not stored any more"):
            collection.add([_SAVED], expected={"1": version_hash(_SAVED)})
        assert list(collection.scan()) == []

    def test_what_is_expected_need_not_be_written(self, collection: Collection) -> None:
        """An item may depend on another one that is there, or is not."""
        assert collection.add([_SAVED], expected={"absent": None})[0].status is WriteStatus.STORED
        with pytest.raises(VersionConflictError, match="'1' is stored already"):
            collection.add([item("beside")], expected={"1": None})
        assert list(collection.scan()) == [_SAVED]

    def test_what_must_not_match_a_filter(self, collection: Collection) -> None:
        """Whatever is stored, and not expired, is compared in the transaction of the write."""
        assert collection.add([_SAVED], absent=Filter(metadata={"room": 2}))[0].status is WriteStatus.STORED
        collection.add([item("old", id="old", expires_at=1.0)])
        kept = list(collection.scan())
        with pytest.raises(VersionConflictError, match="'1' is stored already"):
            collection.add([item("beside")], absent=Filter(metadata={"room": 1}))
        assert list(collection.scan()) == kept
