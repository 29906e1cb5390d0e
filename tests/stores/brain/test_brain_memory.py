"""MetaGPT's brain memory for a chat: the intent of its tests, and the values they expect."""

from __future__ import annotations

import json

import pytest

from devmem import MemoryContentSnapshot, MemoryWritePayload
from devmem.messages import Message, Role
from devmem.stores import WriteStatus
from devmem.testing import ScriptedChat
from devmem_stores.brain import BrainMemory

from .conftest import MakeBrain


def test_a_talk_and_an_answer(make_brain: MakeBrain) -> None:
    brain = make_brain().brain()
    assert not brain.is_history_available
    for content in ("Hello", "World"):
        assert brain.add_talk(Message(content, role=Role.TOOL)).status is WriteStatus.STORED
    assert brain.add_answer("Hi there").status is WriteStatus.STORED
    assert [(m.role, m.content) for m in brain.history] == [
        (Role.USER, "Hello"),
        (Role.USER, "World"),
        (Role.ASSISTANT, "Hi there"),
    ]
    assert brain.is_history_available
    assert brain.exists("Hello")
    assert not brain.exists("hello")
    assert brain.history_text == "Hello\nWorld"
    assert brain.last_history_id == brain.history[-1].id


def test_equal_words_of_another_agent_are_all_heard(make_brain: MakeBrain) -> None:
    """Of an agent that does not write here itself; what one that does passes on is its own answer."""
    store = make_brain()
    for _ in range(3):
        relayed = "=== INPUT FROM pump (assistant) ===\n\nDone.\n\n=== INPUT FROM user (user) ===\n\nstatus?"
        store.update(
            MemoryWritePayload(
                inputs_text=relayed, source="desk", output_snapshot=MemoryContentSnapshot(text="All is well.")
            )
        )
    texts = [message.content for message in store.brain().history]
    assert [texts.count(text) for text in ("Done.", "status?", "All is well.")] == [3, 3, 3]


def test_the_last_talk_is_taken_once(make_brain: MakeBrain) -> None:
    brain = make_brain().brain()
    assert brain.pop_last_talk() is None
    brain.add_talk("When is the launch?")
    assert brain.last_talk == "When is the launch?"
    assert brain.pop_last_talk() == "When is the launch?"
    assert brain.last_talk is brain.pop_last_talk() is None
    assert brain.exists("When is the launch?")


def test_knowledge(make_brain: MakeBrain) -> None:
    store = make_brain()
    brain = store.brain()
    for known in ("Tents hold forty people.", "The boat is blue."):
        assert brain.add_knowledge(known).status is WriteStatus.STORED
    assert brain.add_knowledge(" ").status is WriteStatus.SKIPPED
    assert brain.add_knowledge(brain.knowledge[0]).status is WriteStatus.DUPLICATE
    assert brain.get_knowledge() == "Tents hold forty people.\nThe boat is blue."
    assert not brain.is_history_available
    assert "blue" in store.retrieve("", "What colour has the boat?", 1)[0].content_summary


def test_the_history_in_metagpts_form(make_brain: MakeBrain) -> None:
    brain = make_brain().brain()
    brain.add_talk("发布会是什么时候?")
    brain.add_answer("May 3rd")
    text = brain.to_metagpt_history_format()
    assert "发布会" in text
    assert json.loads(text) == [
        {"content": "发布会是什么时候?", "role": "user"},
        {"content": "May 3rd", "role": "assistant"},
    ]


LONG = " ".join(f"Point {n} is that the boat needs {n} new planks." for n in range(25))


def test_a_summary_changes_nothing(make_brain: MakeBrain) -> None:
    chat = ScriptedChat("The boat needs planks.")
    brain = make_brain(chat=chat).brain()
    brain.add_talk(LONG)
    assert brain.summarize(max_words=50, keep_language=True) == "The boat needs planks."
    (request,) = chat.requests
    said = [message.content for message in request.messages]
    assert any("fewer than 50 words" in text for text in said[:-1])
    assert any("language of the text" in text for text in said[:-1])
    assert "Point 24" in said[-1]
    assert len(brain.history) == 1


def test_a_title(make_brain: MakeBrain) -> None:
    chat = ScriptedChat('"Planks for\nthe boat"')
    brain = make_brain(chat=chat).brain()
    assert brain.get_title() == "New"
    brain.add_talk("The boat needs planks.")
    assert brain.get_title(max_words=4) == "Planks for the boat"
    assert any("fewer than 4 words" in message.content for message in chat.requests[0].messages)


@pytest.mark.parametrize(("answer", "related"), [("TRUE", True), ("false.", False), ("**True**", True)])
def test_related(make_brain: MakeBrain, answer: str, related: bool) -> None:
    chat = ScriptedChat(answer)
    assert make_brain(chat=chat).brain().is_related("When does it sail?", "The boat sails in May.") is related
    assert chat.asked[0].index("The boat") < chat.asked[0].index("When does")


def test_rewriting(make_brain: MakeBrain) -> None:
    chat = ScriptedChat("When does the boat sail?")
    found = make_brain(chat=chat).brain().rewrite("When does it sail?", "We talked about the boat.")
    assert (str(found), found.rewritten, found.reason) == ("When does the boat sail?", True, "")
    assert "We talked about the boat." in chat.asked[0]
    assert "When does it sail?" in chat.asked[0]
    assert not make_brain(chat=chat).brain().rewrite("When does it sail?", " ").rewritten


def test_prompts_speak_the_texts_language(make_brain: MakeBrain) -> None:
    chat = ScriptedChat("发布会五月三日", "TRUE", "Title")
    brain = make_brain(chat=chat).brain()
    brain.rewrite("它是什么时候?", "我们谈到了发布会。")
    assert "改写" in chat.requests[0].messages[0].content
    make_brain(chat=chat, language="zh").brain().is_related("one", "two")
    assert "第二段文本" in chat.requests[1].messages[0].content


def test_instruction_for_summaries_can_be_replaced(make_brain: MakeBrain) -> None:
    """Braces of any other kind in it are text."""
    chat = ScriptedChat("Short.")
    brain = make_brain(chat=chat, summary_prompt='Answer {"in": "JSON"}, {words} words at most.').brain()
    brain.add_talk(LONG)
    assert brain.summarize(max_words=30) == "Short."
    assert chat.requests[0].messages[0].content == 'Answer {"in": "JSON"}, 30 words at most.'


class TestWithoutAModel:
    """Everything works but rewriting, which says so."""

    def test_title(self, make_brain: MakeBrain) -> None:
        brain = make_brain(llm={"provider": "extractive"}).brain()
        assert brain.get_title() == "New"
        brain.add_talk("The boat needs planks.\nHello.")
        assert brain.get_title(max_words=4) == "The boat needs planks."

    @pytest.mark.parametrize(
        ("one", "two", "related"),
        [
            ("When does the boat sail?", "The boat sails in May with forty people.", True),
            ("When does the boat sail?", "Sourdough bread bakes for forty minutes.", False),
            ("发布会改到几点?", "发布会改到五月三日。", True),
            ("", "", False),
        ],
    )
    def test_related(self, make_brain: MakeBrain, one: str, two: str, related: bool) -> None:
        assert make_brain().brain().is_related(one, two) is related

    def test_rewriting(self, make_brain: MakeBrain) -> None:
        found = make_brain().brain().rewrite("When does it sail?", "We talked about the boat.")
        assert (found.text, found.rewritten) == ("When does it sail?", False)
        assert "no language model" in found.reason


def test_helpers_of_metagpt() -> None:
    assert [BrainMemory.to_int(value, 0) for value in ("1", 7, "-3", "a1b2", None)] == [1, 7, -3, 0, 0]
    assert BrainMemory.extract_info("[TALK]: Hello\nand more") == ("TALK", "Hello\nand more")
    assert BrainMemory.extract_info("so [TALK]:Hello") == (None, "so [TALK]:Hello")
    assert BrainMemory.extract_info("skill> draw a cat", r"(\w+)> (.+)") == ("skill", "draw a cat")
