"""agentUniverse's storages: what its own do, and what they got wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from agentuniverse.agent.memory.conversation_memory.conversation_message import ConversationMessage
from agentuniverse.agent.memory.message import Message
from agentuniverse.base.config.component_configer.component_configer import ComponentConfiger
from agentuniverse.base.config.configer import Configer
from agentuniverse.base.util.memory_util import get_memory_string

import devmem
from devmem.adapters.agentuniverse import DevmemConversationStorage, DevmemMemoryStorage
from tests.adapters.contract import ANSWER, QUESTION, RESULT, Histories, Talks

NOW = datetime(2026, 7, 20, 12, 30)


def texts(messages: list[Any]) -> list[str]:
    return [message.content for message in messages]


class TestMessages:
    @pytest.fixture
    def storage(self, memory: devmem.Memory) -> DevmemMemoryStorage:
        return DevmemMemoryStorage.over(memory)

    def test_a_message_comes_back_as_it_was(self, storage: DevmemMemoryStorage) -> None:
        """agentUniverse's agents put a `datetime` into the metadata, at which its SQLAlchemy storage fails."""
        metadata = {"timestamp": NOW, "gmt_created": NOW.isoformat(), "session_id": "s"}
        said = Message(id="1", type="Q&A", content="Human: tea? AI: yes", source="bob", metadata=metadata)
        parts = Message(id="2", type="human", content=[{"type": "text", "text": "a boat"}, {"type": "image_url"}])
        storage.add([said, parts], "s", "bob")
        assert storage.get("s", "bob") == [said, parts]
        assert storage.get("s", "bob", input="boat", top_k=1) == [parts]

    def test_the_newest_come_last_and_the_last_ones_are_returned(self, storage: DevmemMemoryStorage) -> None:
        """agentUniverse's Chroma storage returns the oldest ones."""
        storage.add([Message(type="human", content=f"message {at}") for at in range(15)], "s", "bob")
        assert texts(storage.get("s", "bob")) == [f"message {at}" for at in range(5, 15)]
        assert texts(storage.get("s", "bob", top_k=2)) == ["message 13", "message 14"]
        assert storage.get("s", "bob", top_k=0) == []

    def test_types_and_sources_are_filters(self, storage: DevmemMemoryStorage) -> None:
        """agentUniverse's ram storage returns the last ordinary message where a summary is asked for."""
        summary = Message(type="summarize", content="So far: tea.", source="bob")
        storage.add([summary, Message(type="input", content="Tea?", source="ann")], "s", "bob")
        assert texts(storage.get("s", "bob", type="summarize")) == ["So far: tea."]
        assert texts(storage.get("s", "bob", type=["input", "output"])) == ["Tea?"]
        assert texts(storage.get("s", "bob", source="bob")) == ["So far: tea."]

    def test_what_answers_the_input_is_found_and_put_in_order(self, storage: DevmemMemoryStorage) -> None:
        said = ["The launch of the ferry is on June 2nd.", "Bread is in the oven.", "The launch was moved."]
        storage.add([Message(type="human", content=text) for text in said], "s", "bob")
        assert texts(storage.get("s", "bob", input="When is the launch?", top_k=2)) == [said[0], said[2]]

    def test_a_message_is_kept_once_by_its_id_and_without_one_each_time(self, storage: DevmemMemoryStorage) -> None:
        storage.add([Message(id="1", content="tea")], "s", "bob")
        storage.add([Message(id="2", content="milk"), Message(id="1", content="tea")], "s", "bob")
        assert texts(storage.get("s", "bob")) == ["tea", "milk"]
        storage.add([Message(content="yes"), Message(content="yes")], "s", "bob")
        assert texts(storage.get("s", "bob")) == ["tea", "milk", "yes", "yes"]

    def test_only_what_is_named_is_deleted(self, storage: DevmemMemoryStorage) -> None:
        """agentUniverse's SQLite storage empties the whole table for an agent that has nothing in it."""
        for session, agent in (("s", "bob"), ("s", "eve"), ("t", "bob")):
            storage.add([Message(content=f"{session} {agent}")], session, agent)
        storage.delete()
        storage.delete("")
        storage.delete("", "bob")
        storage.delete("s", " ")
        storage.delete(agent_id="nobody")
        assert len(storage.get()) == 3
        storage.delete("s", "bob")
        assert texts(storage.get()) == ["s eve", "t bob"]
        storage.delete("s")
        assert texts(storage.get()) == ["t bob"]
        storage.delete(agent_id="bob")
        assert storage.get() == []

    def test_what_has_no_json_form_is_refused_and_nothing_is_kept(self, storage: DevmemMemoryStorage) -> None:
        with pytest.raises(ValueError, match="'2' has no JSON form"):
            storage.add([Message(id="1", content="a"), Message(id="2", content="b", metadata={"x": {1}})], "s")
        assert storage.get() == []

    def test_a_handle_is_never_left(self, memory: devmem.Memory) -> None:
        ann, eve = (DevmemMemoryStorage.over(memory.scoped(user=user)) for user in ("ann", "eve"))
        ann.add([Message(content="of Ann")], "s", "bob")
        assert eve.get("s", "bob") == []
        eve.delete("s")
        assert texts(ann.get("s", "bob")) == ["of Ann"]


def configer(folder: Path, text: str) -> ComponentConfiger:
    file = folder / "component.yaml"
    file.write_text(text, encoding="utf-8")
    return ComponentConfiger().load_by_configer(Configer(path=str(file)).load())


def test_a_component_is_made_of_its_yaml(tmp_path: Path) -> None:
    text = (
        f"name: notes\ndescription: shared\nplace: {tmp_path / 'notes.db'}\nuser: ann\noptions: {{ttl: 30d}}\n"
        "metadata: {type: MEMORY_STORAGE, module: devmem.adapters.agentuniverse, class: DevmemMemoryStorage}\n"
    )
    storage = DevmemMemoryStorage()
    storage.initialize_by_component_configer(configer(tmp_path, text))
    assert (storage.name, storage.description, storage.create_copy()) == ("notes", "shared", storage)
    storage.add([Message(content="tea")], "s", "bob")
    storage.close()
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        (record,) = memory.scoped(user="ann")
        assert (record.text, record.expires_at is not None) == ("tea", True)
    assert texts(storage.get("s")) == ["tea"]
    storage.close()


def turn(number: int, caller: tuple[str, str], callee: tuple[str, str], kind: str, text: str) -> ConversationMessage:
    """Return a message as agentUniverse's collector makes them: an answer has the caller as its source."""
    said = NOW + timedelta(seconds=number)
    metadata = {"timestamp": said, "prefix": "says", "params": "{}", "pair_id": "p", "gmt_created": f"{said:%F %T}"}
    return ConversationMessage(
        id=str(number),
        conversation_id="s",
        trace_id="t",
        source=caller[0],
        source_type=caller[1],
        target=callee[0],
        target_type=callee[1],
        type=kind,
        content=text,
        metadata=metadata,
        additional_args={"at": number},
    )


USER, BOB, CALC = ("unknown", "user"), ("bob", "agent"), ("calc", "tool")
TURNS = [
    turn(1, USER, BOB, "input", "How much is 1 + 1?"),
    turn(2, BOB, CALC, "input", "1 + 1"),
    turn(3, BOB, CALC, "output", "2"),
    turn(4, USER, BOB, "output", "It is two."),
]


class TestConversations:
    @pytest.fixture
    def whole(self) -> Iterator[devmem.Memory]:
        with devmem.open({"type": "conversation", "config": {"memory_path": None}}) as memory:
            yield memory

    @pytest.fixture
    def storage(self, whole: devmem.Memory) -> DevmemConversationStorage:
        return DevmemConversationStorage.over(whole)

    def test_messages_come_back_as_they_were_in_the_order_of_their_times(
        self, storage: DevmemConversationStorage
    ) -> None:
        storage.add(TURNS[::-1], "s")
        assert storage.get("s") == TURNS
        assert storage.get("s", top_k=1) == TURNS[-1:]
        storage.add(TURNS, "s")
        assert len(storage.get()) == 4

    def test_an_agents_view_is_what_it_was_asked_and_answered(self, storage: DevmemConversationStorage) -> None:
        storage.add([*TURNS, turn(5, USER, ("eve", "agent"), "input", "Hello?")], "s")
        assert texts(storage.get("s", "bob")) == ["How much is 1 + 1?", "It is two."]
        assert storage.get("s", "bob", memory_types=["tool"]) == TURNS
        assert texts(storage.get("s", "bob", type="output")) == ["It is two."]
        assert texts(storage.get(trace_id="t", type=["input"])) == ["How much is 1 + 1?", "1 + 1", "Hello?"]
        assert storage.get(trace_id="u") == []

    def test_the_answer_is_the_answerers_to_everybody_else(
        self, storage: DevmemConversationStorage, whole: devmem.Memory
    ) -> None:
        storage.add(TURNS, "s")
        store: Any = whole.store
        records = [(record.source.name, record.target.name) for record in store.log("s")]
        assert records == [("unknown", "bob"), ("bob", "calc"), ("calc", "bob"), ("bob", "unknown")]

    def test_messages_without_an_id_are_each_kept(self, storage: DevmemConversationStorage) -> None:
        """agentUniverse computes the default of the id once, so that its SQLite storage keeps one of them."""
        storage.add([ConversationMessage(content=text, type="input") for text in ("one", "two")], "s")
        assert len(storage.get("s")) == 2

    def test_plain_messages_are_their_agents_own_and_left_unchanged(self, storage: DevmemConversationStorage) -> None:
        noted = Message(source="bob", type="Q&A", content="Human: tea? AI: yes", metadata={"timestamp": NOW})
        summary = Message(source="bob", type="summarize", content="So far: tea.")
        storage.add([noted, summary], "s", "bob")
        assert noted.metadata == {"timestamp": NOW}
        assert texts(storage.get("s", "bob")) == ["Human: tea? AI: yes", "So far: tea."]
        assert storage.get("s", "bob", type=["input", "output"]) == []
        (found,) = storage.get("s", "bob", type="summarize")
        assert (found.source, found.source_type, found.content) == ("bob", "agent", "So far: tea.")

    def test_only_what_is_named_is_deleted(self, storage: DevmemConversationStorage) -> None:
        """agentUniverse's SQLite storage drops the conditions on agent and trace."""
        storage.add(TURNS, "s")
        storage.delete()
        storage.delete("")
        storage.delete("", "bob")
        storage.delete("s", " ")
        storage.delete(agent_id="nobody")
        storage.delete("s", trace_id="u")
        assert len(storage.get()) == 4
        storage.delete("s", "bob")
        assert texts(storage.get()) == ["1 + 1", "2"]
        storage.delete(trace_id="t")
        assert storage.get() == []

    def test_records_of_devmems_own_are_read_and_found_by_their_type(
        self, storage: DevmemConversationStorage, whole: devmem.Memory
    ) -> None:
        from devmem.recording import Interaction, InteractionKind, Participant, ParticipantType

        bob, ann = Participant("bob", ParticipantType.AGENT), Participant("ann", ParticipantType.USER)
        failed = {"kind": InteractionKind.ERROR, "content": "out of tea", "event_time": 5.0}
        store: Any = whole.store
        store.record([Interaction(id="1", conversation="s", trace="t", source=bob, target=ann, **failed)])  # type: ignore[arg-type]
        (message,) = storage.get("s", "bob", type="output")
        assert (message.type, message.source, message.target, message.content) == ("output", "ann", "bob", "out of tea")
        assert "ann" in get_memory_string([message])


class TestContract(Talks, Histories):
    keeps_results = True
    page, hands_on = "agentuniverse", "host ids"

    def converse(self, memory: devmem.Memory, exchanges: Sequence[tuple[str, str]]) -> None:
        storage = DevmemMemoryStorage.over(memory)
        for asked, answer in exchanges:
            storage.add([Message(type="human", content=asked), Message(type="ai", content=answer)])

    def talk(self, memory: devmem.Memory) -> None:
        said = [("human", QUESTION), ("tool", RESULT), ("ai", ANSWER)]
        DevmemMemoryStorage.over(memory).add([Message(type=kind, content=text) for kind, text in said])
