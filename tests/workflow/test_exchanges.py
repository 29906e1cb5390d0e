"""Every exchange is stored, whatever was recalled for it; what says the same is shown once."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmem import MemoryContentSnapshot, MemoryWritePayload, Scope, WorkflowRunner, open_stores
from devmem.messages import AttachmentRef, MessageBlock
from devmem.stores import SnapshotBlock

from .doubles import ScriptedStore, hit, manager_of, retrieved, said
from .runner_doubles import ChatsByNode, ScriptedChat, agent_yaml, stores_yaml, write_workflow

TYPES = ("simple", "blackboard", "brain", "role_zero", "long_term", "conversation")
ORDERS = (
    "Please order tea for Ann on Monday.",
    "Please order bread for Bo on Tuesday.",
    "Please order cake for Chris on Friday.",
)


@pytest.mark.parametrize("answer", ["Yes.", "It is ordered as you asked."])
@pytest.mark.parametrize("kind", TYPES)
def test_equal_answers_to_different_requests_are_all_kept(kind: str, answer: str, tmp_path: Path) -> None:
    read = write_workflow(tmp_path, stores_yaml(kind=kind), "nodes:", agent_yaml("clerk", "{name: notes}"))
    chats = ChatsByNode(clerk=ScriptedChat(answer))
    with open_stores(read) as stores:
        with WorkflowRunner(read, stores, chat_models=chats, scope=Scope(user="ann", conversation="c")) as runner:
            for order in ORDERS:
                runner.run(order)
        items = stores["notes"].recent(10)
    assert [item.output_snapshot and item.output_snapshot.text for item in items] == [answer] * 3
    texts = [f"{item.content_summary} {item.input_snapshot and item.input_snapshot.text}" for item in items]
    assert all(order in text for order, text in zip(reversed(ORDERS), texts, strict=True))
    if kind == "blackboard":
        assert [item.content_summary for item in items] == [answer] * 3


def test_an_answer_in_words_that_were_recalled_for_it_is_stored() -> None:
    store = ScriptedStore(hits=[hit("Input: Do you approve plan A from Monday?\nOutput: I approve.")])
    manager = manager_of(store)
    manager.retrieve(query="Do you approve plan B from Tuesday?")
    manager.update(said("Do you approve plan B from Tuesday?", "I approve."))
    assert [(each.inputs_text, each.output_text()) for each in store.payloads] == [
        ("Do you approve plan B from Tuesday?", "I approve.")
    ]


def image(name: str) -> MessageBlock:
    data = f"data:image/png;base64,{name * 4}"
    return MessageBlock(type="image", attachment=AttachmentRef(attachment_id=name, sha256=name * 64, data_uri=data))


def test_images_with_the_same_caption_are_all_kept_and_shown(tmp_path: Path) -> None:
    read = write_workflow(
        tmp_path,
        "memory: [{name: exchanges, type: simple}, {name: board, type: blackboard}]",
        "nodes:",
        agent_yaml("painter", "{name: exchanges}, {name: board}"),
    )
    with open_stores(read) as stores:
        manager = manager_of(*stores.values())
        for name in "abc":
            drawn = SnapshotBlock(role="assistant", block=image(name))
            output = MemoryContentSnapshot(text="Here is the image you asked for.", blocks=(drawn,))
            manager.retrieve(query="Draw the harbour.")
            asked = MemoryContentSnapshot(text="(user) Draw the harbour.")
            manager.update(
                MemoryWritePayload(inputs_text="Draw the harbour.", input_snapshot=asked, output_snapshot=output)
            )
        for store in stores.values():
            assert [ids(item.output_snapshot) for item in store.recent(10)] == [["c"], ["b"], ["a"]]
        shown = retrieved(manager, query="the image of the harbour")
    assert sorted(ids(item.output_snapshot)[0] for item in shown.items) == ["a", "b", "c"]


def ids(snapshot: MemoryContentSnapshot | None) -> list[str]:
    refs = [kept.block.attachment for kept in snapshot.blocks] if snapshot else []
    return [ref.attachment_id for ref in refs if ref]


def test_a_model_that_repeats_what_it_was_shown_fills_no_block_with_it(tmp_path: Path) -> None:
    read = write_workflow(tmp_path, stores_yaml(), "nodes:", agent_yaml("helper", "{name: notes}"))
    with open_stores(read) as stores:
        manager = manager_of(stores["notes"])
        for _ in range(4):
            manager.update(said("Which tea?", "Oolong is served on Monday."))
            shown = retrieved(manager, query="Which tea is served?")
            assert shown.formatted_text.count("Oolong is served on Monday.") == 1


def block_of(text: str) -> str:
    shown = retrieved(manager_of(ScriptedStore(hits=[hit(text)])), query="?")
    return shown.formatted_text


def test_the_block_of_memories_around_an_input_or_an_answer_is_not_stored() -> None:
    store, block = ScriptedStore(), block_of("The deadline is May 5.")
    prompt = f"{block}\n\nChris left. When?"
    manager_of(store).update(
        MemoryWritePayload(
            inputs_text=prompt,
            input_snapshot=MemoryContentSnapshot(text=f"(user) x\n\n{prompt}"),
            output_snapshot=MemoryContentSnapshot(text=f"{block}\n\nSo Ann must hurry."),
        )
    )
    (payload,) = store.payloads
    assert payload.inputs_text == "Chris left. When?"
    assert payload.input_snapshot == MemoryContentSnapshot(text="(user) x\n\nChris left. When?")
    assert payload.output_text() == "So Ann must hurry."


def test_an_answer_that_is_only_the_block_is_what_the_agent_said() -> None:
    store, block = ScriptedStore(), block_of("The deadline is May 5.")
    manager_of(store).update(said("When?", block))
    assert [(payload.inputs_text, payload.output_text()) for payload in store.payloads] == [("When?", block)]


def test_an_answer_without_a_model_is_stored_and_quoted_by_no_later_one(tmp_path: Path) -> None:
    agent = agent_yaml("helper", "{name: notes}", provider="extractive")
    read = write_workflow(tmp_path, stores_yaml(), "nodes:", agent)
    with open_stores(read) as stores:
        stores["notes"].update(said("Ann moved the launch to June 2nd.", "Noted."))
        with WorkflowRunner(read, stores) as runner:
            answers = [runner.run(asked).output for asked in ("When is the launch?", "When will the launch be?")]
        assert stores["notes"].count() == 3
    assert "June 2nd" in answers[0]
    heads = [answer.splitlines()[0] for answer in answers]
    assert heads[0] == heads[1]
    assert all(
        answer.count(head) == 1 and answer.count("June 2nd") == 1 for answer, head in zip(answers, heads, strict=True)
    )
