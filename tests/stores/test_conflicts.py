"""A statement that contradicts an older one of its scope is reported, and treated as `on_conflict` says."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue

import devmem
from devmem.errors import ConfigError, NotStoredError
from devmem.memory import Memory
from devmem.model.items import MemoryContentSnapshot, MemoryItem, Scope, fact_id, is_fact
from devmem.model.results import MemoryWritePayload, WriteOutcome, WriteStatus
from devmem.stores import CollectionMemory, Provenance, SourceKind

OLD, NEW, NEWEST = "Ann lives in Berlin.", "Ann lives in Hamburg.", "Ann lives in Munich."


def opened(folder: Path, on_conflict: str = "keep", kind: str = "simple", more: str = "") -> Memory:
    config = f"{{memory_path: store.db, on_conflict: {on_conflict}{more and f', {more}'}}}"
    (folder / "team.yaml").write_text(f"memory: [{{name: s, type: {kind}, config: {config}}}]\n", encoding="utf-8")
    return devmem.open(folder / "team.yaml#s")


def texts(memory: Memory) -> list[str]:
    """Return what a search could find, in the order of storing."""
    found = memory.recent(100, user=devmem.ANY)
    return [record.text for record in reversed(found) if record.quarantine_reason is None]


def versions(memory: Memory, item_id: str) -> list[str]:
    return [version.record.text for version in memory.history(item_id)]


def related(outcomes: Sequence[WriteOutcome]) -> list[list[tuple[str, str]]]:
    return [[(each.item_id, each.text) for each in outcome.related] for outcome in outcomes]


def test_without_the_option_nothing_is_looked_for(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db") as memory:
        memory.add(OLD)
        (outcome,) = memory.add_outcomes(NEW)
        assert (outcome.status, outcome.related) == (WriteStatus.STORED, ())


@pytest.mark.parametrize("kind", ["simple", "blackboard"])
def test_both_statements_are_kept_and_the_older_one_is_reported(tmp_path: Path, kind: str) -> None:
    with opened(tmp_path, kind=kind) as memory:
        old = memory.add(OLD)
        memory.add("Ann likes tea.")
        (outcome,) = memory.add_outcomes(NEW)
        assert related([outcome]) == [[(old, OLD)]]
        assert [each.restated for each in outcome.related] == [1.0]
        assert texts(memory) == [OLD, "Ann likes tea.", NEW]
        (outcome,) = memory.add_outcomes(NEWEST)
        assert related([outcome]) == [[(memory.add(NEW), NEW), (old, OLD)]]


@pytest.mark.parametrize(
    ("older", "newer"), [("会议在星期三。", "会议改到星期五了。"), ("李雷住在上海。", "李雷现在住在北京。")]
)
def test_chinese_statements(tmp_path: Path, older: str, newer: str) -> None:
    with opened(tmp_path, "supersede") as memory:
        old = memory.add(older)
        (outcome,) = memory.add_outcomes(newer)
        assert (outcome.item_id, related([outcome])) == (old, [[(old, older)]])
        assert versions(memory, old) == [older, newer]


def test_a_superseded_statement_is_a_version_that_can_be_put_back(tmp_path: Path) -> None:
    with opened(tmp_path, "supersede") as memory:
        old = memory.add(OLD, metadata={"room": 5})
        (outcome,) = memory.add_outcomes(NEW)
        assert (outcome.status, outcome.item_id, outcome.reason) == (WriteStatus.SUPERSEDED, old, "")
        assert texts(memory) == [NEW]
        assert versions(memory, old) == [OLD, NEW]
        assert memory.update(old, memory.history(old)[0].record.text).text == OLD
        assert memory.add(NEW) == old
        # Said once more, it is known.
        assert memory.add(NEW) == old
        assert memory.add(NEW, metadata={"by": "Tom"}) == old
        assert memory.add(OLD) == old
        assert versions(memory, old) == [OLD, NEW, OLD, NEW, NEW, NEW, OLD]
        assert texts(memory) == [OLD]


def test_reverting_a_run_restores_what_it_superseded(tmp_path: Path) -> None:
    with opened(tmp_path, "supersede") as memory:
        old = memory.add(OLD)
        with memory.run("move") as pending:
            (outcome,) = pending.add_outcomes(NEW)
            assert (outcome.item_id, texts(pending), texts(memory)) == (old, [NEW], [OLD])
        assert texts(memory) == [NEW]
        memory.revert("move")
        assert texts(memory) == [OLD]
        assert versions(memory, old) == [OLD, NEW, OLD]


def test_what_a_pending_run_wrote_itself_is_not_replaced_as_no_version_of_it_would_be_kept(tmp_path: Path) -> None:
    with opened(tmp_path, "supersede") as memory:
        with memory.run() as pending:
            first = pending.add(OLD)
            (outcome,) = pending.add_outcomes(NEW)
            assert related([outcome]) == [[(first, OLD)]]
        assert texts(memory) == [OLD, NEW]


@pytest.mark.parametrize("on_conflict", ["keep", "supersede"])
def test_statements_of_one_call_are_compared_too(tmp_path: Path, on_conflict: str) -> None:
    with opened(tmp_path, on_conflict) as memory:
        one, other, third = memory.add_outcomes([OLD, "Ann likes tea.", NEW])
        assert related([one, other, third]) == [[], [], [(one.item_id, OLD)]]
        assert texts(memory) == [OLD, "Ann likes tea.", NEW]


def test_of_two_statements_of_one_call_the_first_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    with opened(tmp_path, "supersede") as memory:
        old = memory.add(OLD)
        one, other = memory.add_outcomes([NEW, NEWEST])
        assert one.item_id == old != other.item_id
        assert related([one, other]) == [[(old, OLD)], [(old, NEW)]]
        assert (texts(memory), versions(memory, old)) == ([NEW, NEWEST], [OLD, NEW])


@pytest.mark.parametrize("on_conflict", ["keep", "supersede", "ask"])
@pytest.mark.parametrize("scope", [{"user": "bob"}, {"user": "ann", "agent": "a"}, {"user": "ann", "session": "s"}, {}])
def test_nothing_leaves_its_scope(tmp_path: Path, on_conflict: str, scope: dict[str, str]) -> None:
    with opened(tmp_path, on_conflict) as memory:
        memory.add(OLD, user="ann")
        handle = memory.scoped(**scope) if scope else memory
        (outcome,) = handle.add_outcomes(NEW)
        assert (outcome.status, outcome.related) == (WriteStatus.STORED, ())
        assert texts(memory) == [OLD, NEW]


@pytest.mark.parametrize("on_conflict", ["supersede", "ask"])
def test_what_has_a_key_is_left_to_its_key(tmp_path: Path, on_conflict: str) -> None:
    with opened(tmp_path, on_conflict) as memory:
        memory.add(OLD, key="home")
        (plain,) = memory.add_outcomes(NEW)
        (keyed,) = memory.add_outcomes(NEWEST, key="work")
        assert related([plain, keyed]) == [[], []]
        assert texts(memory) == [OLD, NEW, NEWEST]


def test_an_extracted_fact_is_left_to_its_key(tmp_path: Path) -> None:
    with opened(tmp_path, "supersede") as memory:
        turn = memory.add("Bob told us about Ann.")
        parts: dict[str, JsonValue] = {"key": ["ann", "home"], "value": "Berlin", "quote": OLD}
        fact = MemoryItem(
            id=fact_id(Scope(), ("ann", "home")),
            content_summary=OLD,
            metadata={"fact": parts},
            provenance=Provenance(parents=(turn,)),
            created_at=0.0,
        )
        assert is_fact(fact)
        memory.store.add([fact])
        (other, same) = memory.add_outcomes(NEW)[0], memory.add_outcomes(OLD)[0]
        assert other.related == ()
        assert same.item_id == other.item_id != fact.id
        assert memory.get(fact.id).text == OLD  # type: ignore[union-attr]


def test_what_its_caller_named_keeps_its_id(tmp_path: Path) -> None:
    with opened(tmp_path, "supersede") as memory:
        memory.add(OLD)
        assert memory.add(NEW, id="mine", if_version="none") == "mine"
        memory.add({"role": "user", "content": NEWEST}, conversation="c")
        assert texts(memory) == [OLD, NEW, NEWEST]


def test_a_less_trusted_statement_takes_no_place(tmp_path: Path) -> None:
    with opened(tmp_path, "supersede") as memory:
        old = memory.add(OLD)
        (outcome,) = memory.add_outcomes(NEW, source=Provenance(kind=SourceKind.TOOL, name="web"))
        assert related([outcome]) == [[(old, OLD)]]
        assert texts(memory) == [OLD, NEW]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Ann lives in Berlin. Her phone number is 555-0101.", NEW),
        ("Ann lives in Berlin with two cats.", "Ann now lives in Hamburg."),
        ("发布会在五月一日,地点在上海图书馆。", "发布会在五月八日。"),
    ],
)
def test_what_says_more_is_not_replaced(tmp_path: Path, older: str, newer: str) -> None:
    with opened(tmp_path, "supersede") as memory:
        old = memory.add(older)
        (outcome,) = memory.add_outcomes(newer)
        assert related([outcome]) == [[(old, older)]]
        assert outcome.related[0].restated < 1
        assert texts(memory) == [older, newer]


def test_what_is_pinned_or_led_to_the_new_statement_stays(tmp_path: Path) -> None:
    with opened(tmp_path, "supersede") as memory:
        memory.add(OLD, metadata={"pinned": True})
        memory.add(NEW)
        assert texts(memory) == [OLD, NEW]
        old = memory.add(OLD, user="ann")
        memory.add(NEW, user="ann", derived_from=[old])
        assert texts(memory) == [OLD, NEW, OLD, NEW]


def test_a_statement_of_an_earlier_time_replaces_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, "supersede") as memory:
        memory.add(OLD, time="2026-05-01")
        (outcome,) = memory.add_outcomes(NEW, time="2020-05-01")
        assert outcome.related == ()
        assert texts(memory) == [OLD, NEW]


def test_what_was_derived_from_a_superseded_statement_is_stale(tmp_path: Path) -> None:
    with opened(tmp_path, "supersede") as memory:
        old = memory.add(OLD)
        memory.add("So send the invitation to Berlin.", id="so", derived_from=[old])
        memory.add(NEW)
        assert [(each.record.id, each.reason) for each in memory.stale()] == [("so", "based on something that changed")]


def test_it_expires_as_a_new_item_does(tmp_path: Path) -> None:
    with opened(tmp_path, "supersede", more="ttl: 1h") as memory:
        old = memory.add(OLD, expires_at="2100-01-01")
        memory.add(NEW)
        (record,) = memory.get_many([old])
        assert record.expires_at is not None
        assert record.expires_at.year < 2100


def test_an_embedding_follows_the_text_to_its_id(tmp_path: Path) -> None:
    with opened(
        tmp_path, "supersede", more="embedding: {provider: given, model: m, params: {dimensions: 2}}"
    ) as memory:
        old = memory.add(OLD, embedding=[1.0, 0.0])
        assert memory.add(NEW, embedding=[0.0, 1.0]) == old
        store = memory.store
        assert isinstance(store, CollectionMemory)
        assert store.collection.embeddings([old])[old].vectors.tolist() == [[0.0, 1.0]]


def test_a_question_is_asked_in_quarantine(tmp_path: Path) -> None:
    with opened(tmp_path, "ask") as memory:
        old = memory.add(OLD)
        (outcome,) = memory.add_outcomes(NEW)
        assert (outcome.status, outcome.reason) == (WriteStatus.QUARANTINED, f"in quarantine: contradicts {old}")
        assert related([outcome]) == [[(old, OLD)]]
        assert texts(memory) == [OLD]
        # Saying it again does not release it.
        assert memory.add(NEW, metadata={"by": "Tom"}) == outcome.item_id
        (record,) = memory.quarantined()
        assert (record.id, record.quarantine_reason) == (outcome.item_id, f"contradicts {old}")
        approved = memory.approve(record.id, reason="she moved")
        assert (approved.id, approved.text, approved.item.trust) == (old, NEW, 1.0)
        assert versions(memory, old) == [OLD, NEW]
        assert not memory.quarantined()


def test_approved_or_rejected(tmp_path: Path) -> None:
    """A statement that says less than the older one is kept beside it; a rejected one leaves it unchanged."""
    older = "Ann lives in Berlin. Her phone number is 555-0101."
    with opened(tmp_path, "ask") as memory:
        memory.add(older)
        memory.approve(memory.add(NEW))
        assert texts(memory) == [older, NEW]
        memory.reject(memory.add(NEWEST), reason="a joke")
        assert texts(memory) == [older, NEW]
        assert not memory.quarantined()


def test_a_list_is_asked_about_too(tmp_path: Path) -> None:
    with opened(tmp_path, "ask") as memory:
        one, other, third = memory.add_outcomes([OLD, NEW, NEWEST])
        assert (one.status, other.status, third.status) == (
            WriteStatus.STORED, WriteStatus.QUARANTINED, WriteStatus.QUARANTINED
        )  # fmt: skip
        assert related([other, third]) == [[(one.item_id, OLD)], [(one.item_id, OLD)]]
        assert texts(memory) == [OLD]


def test_a_guard_and_tombstones_go_before(tmp_path: Path) -> None:
    with opened(tmp_path, "supersede", more="guard: {min_trust: 0.9}") as memory:
        old = memory.add(OLD, trust=1)
        (outcome,) = memory.add_outcomes(NEW, source=Provenance(kind=SourceKind.TOOL, name="web"))
        assert outcome.status is WriteStatus.QUARANTINED
        memory.erase(memory.add("Tom lives in Linz.", user="tom"), tombstone=True, user="tom")
        memory.add("Tom lives in Graz.", user="tom")
        with pytest.raises(NotStoredError):
            memory.add("Tom lives in Linz.", user="tom")
        assert texts(memory) == [OLD, "Tom lives in Graz."]
        assert versions(memory, old) == [OLD]


def test_a_node_of_a_workflow_supersedes_too(tmp_path: Path) -> None:
    with opened(tmp_path, "supersede", kind="blackboard") as memory:
        scopes = Scope(user="ann", run="r1"), Scope(user="ann", run="r2")
        written = [
            memory.store.update(MemoryWritePayload(output_snapshot=MemoryContentSnapshot(text=text), scope=scope))
            for text, scope in zip((OLD, NEW), scopes, strict=True)
        ]
        assert [outcome.status for outcome in written] == [WriteStatus.STORED, WriteStatus.SUPERSEDED]
        assert related(written) == [[], [(written[0].item_id, OLD)]]
        assert texts(memory) == [NEW]


def test_threads_see_what_the_others_stated(tmp_path: Path) -> None:
    """Whatever their order, one statement is left, and each other one is a version of it."""
    places = [f"Ann lives in {place}." for place in ("Berlin", "Hamburg", "Munich", "Bremen", "Kiel", "Mainz")]
    with opened(tmp_path, "supersede") as memory:
        threads = [threading.Thread(target=memory.add, args=(text,)) for text in places]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (left,) = memory.recent(10)
        assert sorted(versions(memory, left.id)) == sorted(places)


@pytest.mark.parametrize("more", ["history: none", "memory_path: notes.json"])
def test_nothing_is_superseded_where_no_version_is_kept(tmp_path: Path, more: str) -> None:
    path = "" if "memory_path" in more else "memory_path: s.db, "
    (tmp_path / "team.yaml").write_text(
        f"memory: [{{name: s, type: simple, config: {{{path}{more}, on_conflict: supersede}}}}]\n"
    )
    with pytest.raises(ConfigError, match="on_conflict: keep"):
        devmem.open(tmp_path / "team.yaml#s")


def test_a_typing_error_names_the_choices(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"on_conflict: expected one of keep, supersede, ask"):
        opened(tmp_path, "replace")
