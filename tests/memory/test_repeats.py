"""Texts and histories that are added again are stored once, and forgotten whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from operator import add, attrgetter
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem.memory import repeats
from devmem.messages import AIMessage, Message, UserMessage
from devmem.model.filters import OWN_FIELDS, ItemField
from devmem.model.times import datetime_of
from devmem.stores import Provenance, SourceKind


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def bot(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def said(memory: devmem.Memory, **scope: Any) -> list[str]:
    return [record.text for record in reversed(memory.list(100, **scope))]


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
    assert record.caller_metadata == {"source": "chat", "sure": True, "by": "ann"}
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


@pytest.mark.parametrize("time", [None, "2026-05-01"])
def test_trust_and_expiry_of_a_further_statement(memory: devmem.Memory, time: str | None) -> None:
    """Also where it is the same statement, of the same time."""
    item_id = memory.add("tea", time=time, trust=0.4, expires_at="2999-01-01")
    memory.add("tea", time=time, trust=0.9, expires_at="2998-01-01")
    record = memory.get(item_id)
    assert record is not None
    assert record.trust == 0.9
    assert f"{datetime_of(record.expires_at or 0):%Y}" == "2999"
    memory.add("tea", time=time, trust=0.1, source=Provenance(kind=SourceKind.TOOL, name="menu"))
    record = memory.get(item_id)
    assert record is not None
    assert (record.trust, record.expires_at, record.provenance.kind) == (0.9, None, SourceKind.USER)
    assert record.stated_before[-1]["source"] == {"kind": "tool", "name": "menu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _WithProject(devmem.MemoryItem):
    """An item with a further field."""

    project: str | None = None


def test_a_further_statement_keeps_fields_that_it_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that an item gets later."""
    project = ItemField(name="project", key="project", of=attrgetter("project"))
    monkeypatch.setattr(repeats, "OWN_FIELDS", (*OWN_FIELDS, project))
    first = _WithProject(content_summary="Ann likes tea", created_at=1.0, event_time=1.0, project="kitchen")
    later = replace(first, created_at=2.0, event_time=2.0, project=None)
    for found, again in ((first, later), (replace(first, project=None), replace(first, created_at=2.0))):
        item = repeats.restated(found, again)
        assert isinstance(item, _WithProject)
        assert item.project == "kitchen"
    assert repeats.restated(first, replace(later, event_time=1.0)) is None


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
    memory.store.add([replace(record, expires_at=1.0)])
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
    dry = memory.forget(hit.id, dry_run=True, verify=True)
    assert (dry.items, sorted([hit.id, *dry.copies])) == (3, ["a", "b", "c"])
    receipt = memory.scoped(user="ann").forget(hit.id, verify=True)
    assert (receipt.items, sorted([hit.id, *receipt.copies])) == (3, ["a", "b", "c"])
    assert sorted(record.id for record in memory.list(user=devmem.ANY)) == ["bobs", "other"]
    assert (
        memory.search("4711", user="ann", metadata={}) == [] or "4711" not in memory.search("4711", user="ann")[0].text
    )


def test_many_copies_are_forgotten_and_values_of_keys_stay(memory: devmem.Memory) -> None:
    for number in range(150):
        memory.add("The door code is 99.", id=f"c{number}")
    memory.add("The door code is 99.", key="door")
    (message,) = memory.add(user("The door code is 99."))
    assert memory.forget("c7").items == 150
    assert len(memory) == 2
    assert memory.forget(message).items == 1


def exchanges(first: int, last: int) -> list[dict[str, Any]]:
    return [one for number in range(first, last + 1) for one in (user(f"Order {number}."), bot("Done."))]


def test_batches_of_new_messages_are_all_kept(memory: devmem.Memory) -> None:
    for first in (1, 6, 11):
        memory.add(exchanges(first, first + 4), conversation="c")
    assert said(memory, conversation="c") == [one["content"] for one in exchanges(1, 15)]


def test_weekly_answers_to_a_daily_question_are_all_kept(memory: devmem.Memory) -> None:
    moods = ["good", "fine", "good", "bad", "good", "good", "fine"]
    for _ in range(4):
        memory.add([one for mood in moods for one in (bot("How are you today?"), user(mood))], conversation="c")
    assert said(memory, conversation="c")[1::2] == moods * 4


def test_equal_messages_and_exchanges_are_all_new(memory: devmem.Memory) -> None:
    ids = {memory.add(user("hi"))[0] for _ in range(3)}
    for _ in range(3):
        memory.add([user("continue"), bot("done")], time=1_000.0)
    assert len(ids) == 3
    assert len(memory) == 9


def test_a_text_that_is_said_in_a_batch_again_counts(memory: devmem.Memory) -> None:
    (item_id, *_) = memory.add(["The pump is on."] * 3)
    for _ in range(60):
        memory.add("The pump is on.", source=Provenance(kind=SourceKind.TOOL, name="pump"))
    record = memory.get(item_id)
    assert record is not None
    assert len(record.stated_before) == 62
    assert "(stated 63 times since " in memory.context("Is the pump on?")


@pytest.mark.parametrize("as_object", [False, True])
def test_a_history_that_grows_is_stored_once(memory: devmem.Memory, as_object: bool) -> None:
    texts = ["yes", "yes", "status?", "Done.", "status?", "Done.", "status?", "Done.", "yes", "yes"] * 2
    for turn in range(1, len(texts) + 1):
        history: list[Any] = [(user if at % 2 == 0 else bot)(text) for at, text in enumerate(texts[:turn])]
        if as_object:
            history = [(UserMessage if one["role"] == "user" else AIMessage)(one["content"]) for one in history]
        ids = memory.add(history, conversation="c", history=True)
        assert len(ids) == len(set(ids)) == turn
        assert memory.add(history, conversation="c", history=True) == ids
    assert said(memory, conversation="c") == texts
    assert memory.add([user("yes")], conversation="d", history=True) != ids[:1]


def test_a_history_continues_what_was_added(memory: devmem.Memory) -> None:
    history = [user("status?"), bot("Done.")]
    first = memory.add(history, conversation="c")
    for _ in range(5):
        history += [user("status?")]
        memory.add(history, conversation="c", history=True)
        memory.add(bot("Done."), conversation="c")
        history += [bot("Done.")]
    ids = memory.add(history, conversation="c", history=True)
    assert said(memory, conversation="c") == ["status?", "Done."] * 6
    assert ids[:2] == first
    assert ids == [record.id for record in memory.list(12, conversation="c")][::-1]


def test_an_edited_history_is_stored_from_where_it_differs(memory: devmem.Memory) -> None:
    history = [user("one"), bot("yes"), user("three"), bot("yes")]
    memory.add(history, conversation="c", history=True)
    edited = [*history[:2], user("four"), bot("yes")]
    for _ in range(2):
        memory.add(edited, conversation="c", history=True)
        memory.add([*edited, user("five")], conversation="c", history=True)
        memory.add(history, conversation="c", history=True)
    assert said(memory, conversation="c") == ["one", "yes", "three", "yes", "four", "yes", "five"]
    memory.add([user("one!"), *history[1:]], conversation="c", history=True)
    assert said(memory, conversation="c")[7:] == ["one!", "yes", "three", "yes"]


def test_both_branches_of_a_history_are_kept_whole(memory: devmem.Memory) -> None:
    begun = [user("Draw a cat."), bot("Done.")]
    red, blue = [*begun, user("Red."), bot("Done.")], [*begun, user("Blue."), bot("Done.")]
    for history in (begun, red, blue, [*red, user("Blue."), bot("Done.")], [*blue, user("Red.")]):
        memory.add(history, conversation="c", history=True)
    texts = ["Draw a cat.", "Done.", "Red.", "Done.", "Blue.", "Done.", "Blue.", "Done.", "Red."]
    assert said(memory, conversation="c") == texts


def test_a_shortened_history_stores_nothing_and_loses_nothing(memory: devmem.Memory) -> None:
    history = exchanges(1, 6)
    memory.add(history, conversation="c", history=True)
    memory.add(history[:4], conversation="c", history=True)
    memory.add([*history[:4], user("Stop.")], conversation="c", history=True)
    assert said(memory, conversation="c") == [*(one["content"] for one in history), "Stop."]


def test_a_history_without_its_beginning_continues_the_last_messages(memory: devmem.Memory) -> None:
    texts = [f"line {number}" for number in range(40)]
    for end in range(4, 41, 4):
        system = {"role": "system", "content": f"Be brief; it is {end} o'clock."}
        window = [user(text) for text in texts[max(0, end - 8) : end]]
        memory.add([system, *window], conversation="c", history=True)
    kept = said(memory, conversation="c")
    assert [text for text in kept if text.startswith("line")] == texts
    assert len(kept) == 50


def test_of_a_history_without_its_beginning_nothing_is_lost(memory: devmem.Memory) -> None:
    texts = [f"note {number}" if number % 7 == 0 else "yes" for number in range(60)]
    for end in range(2, 61, 2):
        memory.add([user(text) for text in texts[max(0, end - 6) : end]], conversation="c", history=True)
    rest = iter(said(memory, conversation="c"))
    assert all(text in rest for text in texts), "each in its order, some twice"


def test_instructions_that_change_do_not_part_a_history(memory: devmem.Memory) -> None:
    history: list[dict[str, Any]] = []
    for hour in range(5):
        history += [user("status?"), bot("Done.")]
        memory.add([{"role": "system", "content": f"It is {hour % 2} o'clock."}, *history], history=True)
    assert sorted(said(memory)) == ["Done."] * 5 + ["It is 0 o'clock.", "It is 1 o'clock."] + ["status?"] * 5


def test_a_history_does_not_bring_back_what_was_changed_or_forgotten(memory: devmem.Memory) -> None:
    history = [(user if at % 2 == 0 else bot)(f"message {at}") for at in range(8)]
    ids = memory.add(history, conversation="c", history=True)
    memory.update(ids[2], "changed")
    memory.forget(ids[4])
    memory.add([*history, user("message 8")], conversation="c", history=True)
    assert said(memory, conversation="c").count("message 4") == said(memory, conversation="c").count("message 2") == 0
    assert memory.count(conversation="c") == 8


def test_ids_tell_messages_apart(memory: devmem.Memory) -> None:
    memory.add([user("yes", id="m1"), user("yes", id="m2")])
    memory.add([user("yes", id="m1"), user("yes", id="m2"), user("yes", id="m3")])
    memory.add([Message("yes", id="m1"), Message("yes", id="m3"), user("yes"), user("yes", id="m4")], history=True)
    memory.add([Message("yes", id="m1"), Message("yes", id="m3"), user("yes"), user("yes", id="m4")], history=True)
    assert len(memory) == 5


def test_the_same_message_object_is_known_anywhere_in_a_conversation(memory: devmem.Memory) -> None:
    first = Message("hi")
    (item_id,) = memory.add(first)
    memory.add([user(f"line {number}") for number in range(60)])
    assert memory.add(first) == [item_id]
    assert len(memory) == 61


def test_texts_between_messages_do_not_hide_a_history(memory: devmem.Memory) -> None:
    memory.add([user("hi"), "a note", bot("hello")])
    memory.add("another note")
    ids = memory.add([user("hi"), bot("hello"), user("What now?")], history=True)
    assert said(memory) == ["hi", "a note", "hello", "another note", "What now?"]
    assert [memory.get(one).text for one in ids] == ["hi", "hello", "What now?"]  # type: ignore[union-attr]


def test_a_history_has_no_texts(memory: devmem.Memory) -> None:
    with pytest.raises(TypeError, match="`history` is a conversation's messages"):
        memory.add([user("hi"), "a note"], history=True)
    assert len(memory) == 0


@pytest.mark.parametrize("place", ["m.db", "m.json"])
def test_texts_and_histories_are_known_in_another_process(tmp_path: Path, place: str) -> None:
    history = [user("hi"), bot("hello"), user("yes"), bot("yes")]
    for _ in range(3):
        with devmem.open(tmp_path / place, embedding=None) as memory:
            memory.add("Ann likes tea.")
            memory.add(history, history=True)
            assert len(memory) == 5


def test_a_run_knows_what_is_stored(memory: devmem.Memory) -> None:
    item_id = memory.add("Ann likes tea.")
    with memory.run() as pending:
        assert pending.add("Ann likes tea.", metadata={"sure": True}) == item_id
        pending.add([user("hi"), bot("hello")], history=True)
        pending.add([user("hi"), bot("hello")], history=True)
    assert said(memory) == ["Ann likes tea.", "hi", "hello"]
    assert memory.get(item_id).caller_metadata == {"sure": True}  # type: ignore[union-attr]


def test_an_item_in_the_place_of_a_text_is_left_alone(memory: devmem.Memory) -> None:
    item_id = memory.add("tea", user="ann")
    memory.forget(item_id, user="ann")
    memory.add("mine", id=item_id, user="bob")
    assert memory.add("tea", user="ann") != item_id
    assert memory.get(item_id).text == "mine"  # type: ignore[union-attr]
