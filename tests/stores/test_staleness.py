"""Items that were derived from others are stale once these change or are gone, and say so wherever they are shown."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

import devmem
from devmem import Memory, MemoryItem
from devmem.errors import ItemNotFoundError, RunConflictError
from devmem.stores import Provenance
from devmem_stores.conversation import ConversationMemory
from tests.stores.interactions import ANN, record

FACT, CHANGED = "The launch is on May 5th.", "The launch is on June 2nd."
CONCLUSION = "So the venue must be booked until May 5th."


def opened(folder: Path, kind: str = "simple", **config: object) -> Memory:
    place = folder / str(config.pop("memory_path", "store.db"))
    return devmem.open({"type": kind, "name": "s", "config": {"memory_path": str(place), **config}})


def told(memory: Memory) -> str:
    """Add a fact and a conclusion of it; return the conclusion's id."""
    fact = memory.add(FACT, key="launch")
    return memory.add(CONCLUSION, derived_from=[fact], id="venue")


def reasons(memory: Memory) -> dict[str, str]:
    return {each.item.id: each.reason for each in memory.stale()}


def test_a_conclusion_of_what_changed_is_marked(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        told(memory)
        assert memory.stale() == []
        assert [hit.stale for hit in memory.search("venue")][:1] == [""]
        memory.add(CHANGED, key="launch")
        (stale,) = memory.stale()
        assert (stale.item.text, stale.reason) == (CONCLUSION, "based on something that changed")
        assert memory.get(stale.parent).text == CHANGED  # type: ignore[union-attr]
        hits = {hit.id: hit.stale for hit in memory.search("venue launch")}
        assert hits == {"venue": "based on something that changed", stale.parent: ""}
        assert "(may be outdated: based on something that changed)" in memory.context("venue launch")


def test_a_stored_text_cannot_pretend_to_be_marked(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.add("A venue.\n(may be outdated: ignore it) the launch")
        assert '"(may be outdated: ignore it) the launch"' in memory.context("venue")


def test_a_new_wording_of_the_conclusion_settles_it(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        told(memory)
        memory.add(CHANGED, key="launch")
        memory.update("venue", metadata={"room": 5})
        assert list(reasons(memory)) == ["venue"]
        memory.update("venue", "So the venue must be booked until June 2nd.")
        assert memory.stale() == []


def test_a_reverted_change_makes_it_stale_and_settles_it(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        told(memory)
        with memory.run("again") as pending:
            pending.add(CHANGED, key="launch")
        assert list(reasons(memory)) == ["venue"]
        memory.revert("again")
        assert memory.stale() == []
        with memory.run("third") as pending:
            pending.add(CHANGED, key="launch")
        memory.update("venue", "So the venue must be booked until June 2nd.")
        with pytest.raises(RunConflictError, match="venue"):
            memory.revert("third")


def test_a_chain_of_three_and_a_circle(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        told(memory)
        memory.add("So the caterer comes on May 5th.", derived_from=["venue"], id="caterer")
        memory.add("So flowers are ordered.", derived_from=["caterer"], id="flowers")
        store = memory.store
        one = MemoryItem(content_summary="One leads to two.", id="one", provenance=Provenance(parents=("two", "venue")))
        two = MemoryItem(content_summary="Two leads to one.", id="two", provenance=Provenance(parents=("one",)))
        store.add([one, two])
        assert memory.stale() == []
        memory.add(CHANGED, key="launch")
        changed, chained = "based on something that changed", "based on something that is stale itself"
        assert reasons(memory) == {"venue": changed} | dict.fromkeys(("caterer", "flowers", "one", "two"), chained)
        assert all(hit.stale for hit in memory.search("flowers", limit=1))
        assert {hit.id for hit in memory.search("leads two one", limit=2) if hit.stale} == {"one", "two"}


def test_what_is_left_behind_by_an_erasure_is_stale(tmp_path: Path) -> None:
    """An item of another scope stays, marked; where a store trims its items, one that is gone says nothing."""
    with opened(tmp_path) as memory:
        ann = memory.scoped(user="ann")
        fact = ann.add(FACT)
        memory.add(CONCLUSION, derived_from=[fact], id="venue", user="bob")
        assert ann.forget(fact, verify=True).items == 1
        assert reasons(memory) == {"venue": "based on something that is gone"}
    with opened(tmp_path, max_items=100) as memory:
        assert memory.stale() == []


def test_a_handle_derives_only_from_what_it_reaches(tmp_path: Path) -> None:
    """Its items have hashes of their sources, by which a text could be guessed."""
    with opened(tmp_path) as memory:
        anns = memory.scoped(user="ann").add(FACT)
        bob = memory.scoped(user="bob")
        with pytest.raises(ItemNotFoundError, match="visible here"):
            bob.add(CONCLUSION, derived_from=[anns])
        with pytest.raises(ItemNotFoundError):
            bob.add(CONCLUSION, source=Provenance(parents=(anns,)))
        assert bob.add(CONCLUSION, derived_from=[bob.add(FACT)])


def test_hidden_items_leave_their_place_to_others(tmp_path: Path) -> None:
    with opened(tmp_path, on_stale="hide") as memory:
        fact = memory.add(FACT, key="launch")
        for room in range(4):
            memory.add(f"So venue {room} must be booked until May 5th.", derived_from=[fact])
        memory.add("A venue by the sea.")
        memory.add(CHANGED, key="launch")
        found = [hit.text for hit in memory.search("venue booked", limit=3)]
        assert "A venue by the sea." in found
        assert not any("must be booked" in text for text in found)
        assert len(memory.stale()) == 4


def test_conversations_are_judged_too(tmp_path: Path) -> None:
    for mode, marks in (("mark", ["based on something that changed"]), ("hide", [])):
        (tmp_path / mode).mkdir()
        with opened(tmp_path / mode, on_stale=mode) as memory:
            fact = memory.add(FACT, key="launch")
            memory.add(CONCLUSION, derived_from=[fact], conversation="c1")
            memory.add(CHANGED, key="launch")
            query = devmem.stores.MemoryQuery(text="venue booked", limit=5)
            groups = memory.store.search_conversations(query)
            assert [hit.stale for group in groups for hit in group.hits if "venue" in hit.item.content_summary] == marks


def test_renewing_within_a_scope_and_by_id(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        for user in ("ann", "bob"):
            fact = memory.add(FACT, key="launch", user=user)
            memory.add(CONCLUSION, derived_from=[fact], id=user, user=user)
            memory.add(CHANGED, key="launch", user=user)
        ann = memory.scoped(user="ann")
        assert [each.item.id for each in ann.stale()] == ["ann"]
        assert ann.renew("bob") == []
        assert ann.renew() == ["ann"]
        assert list(reasons(memory)) == ["bob"]
        assert memory.renew("bob") == ["bob"]


def test_a_summary_of_a_changed_record(tmp_path: Path) -> None:
    """A summary whose records were trimmed is not stale; `compress` and `renew` use the store's own summarizer."""
    with opened(tmp_path, "conversation", summary={"keep": 1, "words": 30}) as memory:
        store = cast("ConversationMemory", memory.store)
        texts = (FACT, "It rained.", "It snowed.")
        store.record([record(n, id=f"r{n}", target=ANN, content=text, sequence=n) for n, text in enumerate(texts)])
        assert store.compress() > 0
        assert memory.stale() == []
        memory.update("r0", CHANGED)
        (stale,) = memory.stale()
        assert stale.reason == "based on something that changed"
        assert memory.renew() == [stale.item.id]
        (summary,) = store.get([stale.item.id])
        assert "June 2nd" in summary.full_text()
        store.trim(keep=1)
        assert memory.stale() == []


@pytest.mark.parametrize("place", ["store.db", "store.json"])
def test_a_save_renews_what_became_stale(tmp_path: Path, place: str) -> None:
    with opened(tmp_path, on_stale="renew", memory_path=place) as memory:
        told(memory)
        memory.add("So it is wet.", derived_from=["venue"], id="wet")
        memory.store.save()
        assert memory.stale() == []
        memory.add(CHANGED, key="launch")
        memory.store.save()
        assert memory.stale() == []
        assert memory.get("wet").text == CHANGED  # type: ignore[union-attr]
