"""Tombstones: what was erased is not stored again, in whatever form it comes, and nothing else is kept out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import cast

import pytest

from devmem import Filter, MemoryContentSnapshot, MemoryItem, Scope, WriteOutcome
from devmem.storage import Collection, VersionedCollection
from devmem.testing import ManualClock
from tests.collection_suite.fixtures import OpenCollection

_ERASED = "Her door code is 4711-Zeta. She keeps the spare key under the blue pot."
_AGAIN = (
    _ERASED,
    _ERASED.upper(),
    "her door code is 4711 zeta; she keeps   the spare key under the blue pot",
    "As she said: her door code is 4711-Zeta! Thanks.",
    "First line.\n- She keeps the spare key under the blue pot\nLast line.",
    "（备注）She keeps the spare key under the blue pot。",
)
"""Forms in which an erased text comes back."""
_OTHERS = (
    "Her door code is 4712-Zeta.",
    "She keeps the spare key.",
    "Thanks.",
    "The blue pot is new.",
    "她把备用钥匙放在花盆下面。",
)
_COURTESY = "Thank you very much. OK!"


def _item(text: str, user: str | None = "ann", **fields: object) -> MemoryItem:
    return MemoryItem(content_summary=text, scope=Scope(user=user), **fields)  # type: ignore[arg-type]


class TombstoneSuite:
    """The contract of a `VersionedCollection`; inherit from it with the fixture `open_collection`."""

    @pytest.fixture
    def kept(self, open_collection: OpenCollection) -> Iterator[VersionedCollection]:
        """A new collection."""
        collection = open_collection(clock=ManualClock(1_000_000.0))
        assert isinstance(collection, VersionedCollection)
        yield collection
        collection.close()

    def _add(self, kept: VersionedCollection, item: MemoryItem) -> WriteOutcome:
        (outcome,) = cast("Collection", kept).add([item])
        return outcome

    @pytest.mark.parametrize("form", _AGAIN)
    def test_an_erased_text_stays_out(self, kept: VersionedCollection, form: str) -> None:
        """Other spacing, case and punctuation, and a longer text around it, make no difference."""
        kept.keep_tombstones([_item(_ERASED)])
        outcome = self._add(kept, _item(form))
        assert outcome.erased_before
        assert not outcome
        assert cast("Collection", kept).count() == 0

    def test_snapshots_and_metadata_are_looked_at(self, kept: VersionedCollection) -> None:
        """A text comes back in whatever part of an item."""
        kept.keep_tombstones([_item(_ERASED)])
        assert self._add(kept, _item("note", output_snapshot=MemoryContentSnapshot(text=_ERASED))).erased_before
        assert self._add(kept, _item("note", metadata={"seen": [{"quote": _ERASED}]})).erased_before
        with closing(kept.run("r1")) as run:
            assert run.add([_item(_ERASED)])[0].erased_before, "a run would store it when it is committed"

    def test_others_are_stored(self, kept: VersionedCollection) -> None:
        """Other texts, the same text of another user, and courtesies, which anybody may say again."""
        kept.keep_tombstones([_item(_ERASED), _item(_COURTESY)])
        assert all(self._add(kept, _item(text)) for text in (*_OTHERS, _COURTESY))
        assert self._add(kept, _item(_ERASED, "bob"))
        assert self._add(kept, _item(_ERASED, None))

    def test_what_is_stored_can_be_changed(self, kept: VersionedCollection) -> None:
        """An item with the same text that was not erased stays, and so do its metadata."""
        stored = _item(_ERASED, id="copy")
        assert self._add(kept, stored)
        kept.keep_tombstones([_item(_ERASED)])
        assert self._add(kept, _item(_ERASED, id="copy", metadata={"room": 5}))
        assert self._add(kept, _item("other", id="copy"))
        assert self._add(kept, _item(_ERASED, id="copy")).erased_before

    def test_a_derived_text_is_kept_out_as_a_whole(self, kept: VersionedCollection) -> None:
        """Its sentences may be those of items that stay."""
        kept.keep_tombstones([_item(_ERASED, id="summary")], wholes={"summary"})
        assert self._add(kept, _item(_ERASED.lower())).erased_before
        assert self._add(kept, _item("She keeps the spare key under the blue pot."))

    def test_sentences_are_left_out_of_a_text(self, kept: VersionedCollection) -> None:
        """Of a summary the rest stays."""
        told = f"It rained. {_ERASED} The launch is in May."
        assert kept.without_erased(told, "ann") == told
        kept.keep_tombstones([_item(_ERASED)])
        assert kept.without_erased(told, "ann") == "It rained. The launch is in May."
        assert kept.without_erased(told, "bob") == told
        assert kept.without_erased("It rained.", "ann") == "It rained."

    def test_they_are_listed_and_removed(self, kept: VersionedCollection) -> None:
        """By erasure and by user; what is removed may be stored again."""
        assert kept.tombstones() == []
        assert kept.remove_tombstones() == 0
        first = kept.keep_tombstones([_item(_ERASED)])
        second = kept.keep_tombstones([_item("The launch is in May.", "bob")])
        listed = {each.id: (each.erased_at, each.texts, each.sentences) for each in kept.tombstones()}
        assert listed == {first: (1_000_000.0, 1, 2), second: (1_000_000.0, 1, 1)}
        assert [each.id for each in kept.tombstones("bob", everybody=False)] == [second]
        assert kept.tombstones(None, everybody=False) == []
        assert kept.remove_tombstones([first], "bob", everybody=False) == 0
        assert kept.remove_tombstones([first]) == 1
        assert self._add(kept, _item(_ERASED))
        assert self._add(kept, _item("The launch is in May.", "bob")).erased_before
        assert kept.remove_tombstones() == 1
        assert kept.tombstones() == []
        assert kept.apply_tombstones().items == 0
        assert cast("Collection", kept).count(Filter()) == 1
