"""Texts and histories that are added again are stored once, and forgotten whole."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import add
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem.messages import AIMessage, Message, UserMessage
from devmem.stores import Provenance, SourceKind


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def bot(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def said(memory: devmem.Memory, **scope: Any) -> list[str]:
    return [record.text for record in reversed(memory.recent(100, **scope))]


def test_an_equal_text_of_one_scope_is_one_item(memory: devmem.Memory) -> None:
    first = memory.add("Ann's PIN is 4711.", user="ann")
    assert memory.add("Ann's PIN is 4711.", user="ann") == first
    assert memory.add(["Ann's PIN is 4711.", "Ann likes tea.", "Ann's PIN is 4711."], user="ann")[::2] == [first] * 2
    assert memory.add("Ann's PIN is 4711.", user="bob") != first != memory.add("Ann's PIN is 4711.")
    assert memory.add("Ann's PIN is 4711.", user="ann", agent="clerk") != first
    assert (memory.count(user="ann"), len(memory)) == (3, 5)


def test_time_and_metadata_of_a_further_statement_are_added(memory: devmem.Memory) -> None:
    text = "The launch is on June 2nd."
    item_id = memory.add(text, time="2026-05-01T00:00:00Z", metadata={"source": "mail", "sure": True})
    assert memory.add(text, time="2026-05-08T00:00:00Z", metadata={"source": "chat", "by": "ann"}) == item_id
    record = memory.get(item_id)
    assert record is not None
    assert f"{record.time:%Y-%m-%d}" == "2026-05-08"
    assert record.metadata == {"source": "chat", "sure": True, "by": "ann"}
    assert record.stated_before == ({"time": "2026-05-01T00:00:00+00:00", "metadata": {"source": "mail"}},)
    memory.add(text, time="2026-04-01T00:00:00Z", metadata={"source": "fax", "page": 2})
    late = memory.get(item_id)
    assert late is not None
    assert (late.time, late.metadata["source"], late.metadata["page"]) == (record.time, "chat", 2)
    assert [str(one["time"])[:10] for one in late.stated_before] == ["2026-05-01", "2026-04-01"]
    version = late.version
    memory.add(text, time="2026-05-08T00:00:00Z", metadata={"source": "chat"})
    assert memory.get(item_id).version == version  # type: ignore[union-attr]


def test_a_text_that_is_said_again_is_the_latest(memory: devmem.Memory) -> None:
    now = memory.store.setup.clock()
    for at, day in enumerate(["2nd", "9th", "2nd"]):
        memory._clock = partial(add, now, 60 * at)
        memory.add(f"The launch is on June {day}.")
    assert said(memory) == ["The launch is on June 9th.", "The launch is on June 2nd."]


def test_trust_and_expiry_of_a_further_statement(memory: devmem.Memory) -> None:
    item_id = memory.add("tea", trust=0.4, expires_at="2999-01-01")
    memory.add("tea", trust=0.9, expires_at="2998-01-01")
    record = memory.get(item_id)
    assert record is not None
    assert record.item.trust == 0.9
    assert f"{record.expires_at:%Y}" == "2999"
    memory.add("tea", trust=0.1, source=Provenance(kind=SourceKind.TOOL, name="menu"))
    record = memory.get(item_id)
    assert record is not None
    assert (record.item.trust, record.expires_at, record.item.provenance.kind) == (0.9, None, SourceKind.USER)
    assert record.stated_before[-1]["source"] == {"kind": "tool", "name": "menu"}


def test_a_text_whose_item_was_updated_is_a_new_item(memory: devmem.Memory) -> None:
    first = memory.add("The code is 1.")
    memory.update(first, "The code is 2.")
    again = memory.add("The code is 1.")
    assert again != first
    assert memory.add("The code is 1.") == again
    assert sorted(said(memory)) == ["The code is 1.", "The code is 2."]


def test_a_text_that_was_forgotten_or_has_expired_is_stored_again(memory: devmem.Memory) -> None:
    item_id = memory.add("The code is 1.")
    memory.forget(item_id)
    assert memory.add("The code is 1.") == item_id
    record = memory.get(item_id)
    assert record is not None
    memory.store.add([replace(record.item, expires_at=1.0)])
    assert memory.get(item_id) is None
    assert memory.add("The code is 1.") == item_id
    assert said(memory) == ["The code is 1."]


def test_forgetting_a_text_forgets_its_copies(memory: devmem.Memory) -> None:
    for item_id in ("a", "b", "c"):
        memory.add("Ann's PIN is 4711.", id=item_id, user="ann")
    memory.add("Ann's PIN is 4711.", id="bobs", user="bob")
    memory.add("Ann's PIN is 4712.", id="other", user="ann")
    (hit,) = [hit for hit in memory.search("PIN 4711", user="ann") if "4711" in hit.text]
    assert sorted([hit.id, *hit.same_as]) == ["a", "b", "c"]
    dry = memory.erase(hit.id, dry_run=True)
    assert (dry.items, sorted([hit.id, *dry.copies])) == (3, ["a", "b", "c"])
    receipt = memory.scoped(user="ann").erase(hit.id)
    assert (receipt.items, sorted([hit.id, *receipt.copies])) == (3, ["a", "b", "c"])
    assert sorted(record.id for record in memory.recent(user=devmem.ANY)) == ["bobs", "other"]
    assert (
        memory.search("4711", user="ann", metadata={}) == [] or "4711" not in memory.search("4711", user="ann")[0].text
    )


def test_many_copies_are_forgotten_and_values_of_keys_stay(memory: devmem.Memory) -> None:
    for number in range(150):
        memory.add("The door code is 99.", id=f"c{number}")
    memory.add("The door code is 99.", key="door")
    (message,) = memory.add(user("The door code is 99."))
    assert memory.forget("c7") == 150
    assert len(memory) == 2
    assert memory.forget(message) == 1


@pytest.mark.parametrize("as_object", [False, True])
def test_a_history_that_grows_is_stored_once(memory: devmem.Memory, as_object: bool) -> None:
    texts = ["hi", "hello", "Is it red?", "yes", "Is it round?", "yes", "Is it a ball?", "yes"]
    for turn in range(2, len(texts) + 1, 2):
        history: list[Any] = [(user if at % 2 == 0 else bot)(text) for at, text in enumerate(texts[:turn])]
        if as_object:
            history = [(UserMessage if one["role"] == "user" else AIMessage)(one["content"]) for one in history]
        ids = memory.add(history, conversation="c")
        assert len(ids) == len(set(ids)) == turn
    assert said(memory, conversation="c") == texts
    assert memory.add([user("hi")], conversation="d") != ids[:1]


def test_one_message_that_is_given_each_turn_is_one(memory: devmem.Memory) -> None:
    ids = [memory.add(user("hi")) for _ in range(3)]
    assert ids[0] == ids[1] == ids[2]
    assert said(memory) == ["hi"]


def test_a_repeated_answer_in_a_conversation_is_two_messages(memory: devmem.Memory) -> None:
    for message in (user("Is it red?"), bot("yes"), user("Is it round?"), bot("yes")):
        memory.add(message, conversation="c")
    memory.add([user("continue"), bot("done")], conversation="c")
    memory.add([user("continue"), bot("done")], conversation="c")
    memory.add([user("next"), bot("fine")], conversation="c")
    memory.add([user("continue"), bot("done")], conversation="c")
    texts = ["Is it red?", "yes", "Is it round?", "yes", "continue", "done", "next", "fine", "continue", "done"]
    assert said(memory, conversation="c") == texts


def test_the_last_messages_of_a_conversation_are_known(memory: devmem.Memory) -> None:
    texts = [f"line {number}" for number in range(40)]
    system = {"role": "system", "content": "Be brief."}
    for end in range(4, 41, 4):
        memory.add([system, *(user(text) for text in texts[max(0, end - 8) : end])], conversation="c")
    assert said(memory, conversation="c") == ["Be brief.", *texts]


def test_a_regenerated_answer_is_added_and_nothing_else(memory: devmem.Memory) -> None:
    history = [user("one"), bot("two"), user("three"), bot("four")]
    memory.add(history, conversation="c")
    memory.add([*history[:3], bot("five"), user("six")], conversation="c")
    memory.add([*history[:3], bot("five"), user("six"), bot("seven")], conversation="c")
    assert said(memory, conversation="c") == ["one", "two", "three", "four", "five", "six", "seven"]


def test_a_history_is_known_after_a_message_was_changed_or_forgotten(memory: devmem.Memory) -> None:
    history = [(user if at % 2 == 0 else bot)(f"message {at}") for at in range(8)]
    ids = memory.add(history, conversation="c")
    memory.update(ids[2], "changed")
    more = [*history, user("message 8")]
    assert len({*ids, *memory.add(more, conversation="c")}) == 10, "the new one, and the one that was changed"


def test_ids_and_times_tell_messages_apart(memory: devmem.Memory) -> None:
    memory.add([user("yes", id="m1"), user("yes", id="m2")])
    memory.add(user("yes", id="m2"))
    memory.add([Message("yes", id="m1"), Message("yes", id="m3")])
    assert len(memory) == 3
    memory.add(user("yes", timestamp=1_000.0), conversation="t")
    memory.add([user("yes", timestamp=1_000.0), user("yes", timestamp=2_000.0)], conversation="t")
    memory.add(user("yes"), time=3_000.0, conversation="t")
    memory.add(user("yes"), time=3_000.0, conversation="t")
    assert memory.count(conversation="t") == 3


def test_the_same_message_object_is_known_anywhere_in_a_conversation(memory: devmem.Memory) -> None:
    first = Message("hi")
    (item_id,) = memory.add(first)
    memory.add([user(f"line {number}") for number in range(60)])
    assert memory.add(first) == [item_id]
    assert len(memory) == 61


def test_texts_between_messages_do_not_hide_a_history(memory: devmem.Memory) -> None:
    memory.add([user("hi"), "a note", bot("hello")])
    memory.add("another note")
    ids = memory.add([user("hi"), bot("hello"), user("What now?")])
    assert said(memory) == ["hi", "a note", "hello", "another note", "What now?"]
    assert [memory.get(one).text for one in ids] == ["hi", "hello", "What now?"]  # type: ignore[union-attr]


@pytest.mark.parametrize("place", ["m.db", "m.json"])
def test_texts_and_histories_are_known_in_another_process(tmp_path: Path, place: str) -> None:
    history = [user("hi"), bot("hello"), user("yes"), bot("yes")]
    for _ in range(3):
        with devmem.open(tmp_path / place, embedding=None) as memory:
            memory.add("Ann likes tea.")
            memory.add(history)
            assert len(memory) == 5


def test_a_run_knows_what_is_stored(memory: devmem.Memory) -> None:
    item_id = memory.add("Ann likes tea.")
    with memory.run() as pending:
        assert pending.add("Ann likes tea.", metadata={"sure": True}) == item_id
        pending.add([user("hi"), bot("hello")])
        pending.add([user("hi"), bot("hello")])
    assert said(memory) == ["Ann likes tea.", "hi", "hello"]
    assert memory.get(item_id).metadata == {"sure": True}  # type: ignore[union-attr]


def test_an_item_in_the_place_of_a_text_is_left_alone(memory: devmem.Memory) -> None:
    item_id = memory.add("tea", user="ann")
    memory.forget(item_id, user="ann")
    memory.add("mine", id=item_id, user="bob")
    assert memory.add("tea", user="ann") != item_id
    assert memory.get(item_id).text == "mine"  # type: ignore[union-attr]
