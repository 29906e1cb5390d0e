"""The provider without a model: it quotes what was recalled and says that it does."""

from __future__ import annotations

from typing import Any

import pytest

from devmem import Hit, MemoryItem
from devmem.messages import Message, Role
from devmem.models import Quotation
from devmem.stores import ChatReply, ChatRequest, open_chat_model


def answer(question: str, *recalled: tuple[str, float]) -> ChatReply:
    hits = tuple(Hit(item=MemoryItem(content_summary=text), score=score) for text, score in recalled)
    said = (("===== Related Memories =====", Role.USER), (question, Role.USER), ("a draft", Role.ASSISTANT))
    return reply_to(*(Message(role=role, content=text) for text, role in said), recalled=hits)


def test_quotes_the_three_best_and_says_so() -> None:
    reply = answer("Which tea?", ("third", 0.3), ("first", 0.9), ("fourth", 0.1), ("second\n line", 0.5))
    assert reply.quotation is not None
    head, *quotes = reply.text.splitlines()
    assert "quoted" in head
    assert "no language model" in head
    assert quotes == ["- first", "- second line", "- third"]


def test_answers_in_chinese_when_asked_in_chinese() -> None:
    assert answer("喝什么茶？").text == "没有找到相关的记忆(未配置语言模型)。"
    head, quote = answer("喝什么茶？", ("Oolong", 1.0)).text.splitlines()
    assert head.startswith("最相关的记忆片段")
    assert quote == "- Oolong"


def test_of_a_long_item_the_passage_with_the_wanted_words_is_quoted() -> None:
    filler = " ".join(f"Sentence {n} tells of rain." for n in range(100))
    reply = answer("Who serves oolong tea?", (f"{filler} Ann serves the oolong tea. {filler}", 1.0))
    _, quote = reply.text.splitlines()
    assert quote.startswith("- Ann serves the oolong tea. Sentence 0")
    assert len(quote) <= 402


def reply_to(*said: Message, recalled: tuple[Hit, ...] = ()) -> ChatReply:
    return open_chat_model("extractive").complete(ChatRequest(messages=said, recalled=recalled))


def quoting(question: str, *passages: str) -> Message:
    """The answer of a node before, which quoted passages."""
    metadata = Quotation(question=question, passages=passages).metadata()
    return Message(role=Role.USER, content="\n".join(passages), source="scout", metadata=metadata)


def test_passages_that_the_node_before_quoted_are_passed_on_when_they_fit_the_question() -> None:
    reply = reply_to(quoting("Which tea does Ann drink?", "It rains.", "Ann drinks oolong tea.", "Tea is hot."))
    assert reply.text.splitlines()[1:] == ["- Ann drinks oolong tea.", "- Tea is hot."]
    assert reply.quotation == Quotation(
        question="Which tea does Ann drink?", passages=("Ann drinks oolong tea.", "Tea is hot.")
    )


def test_quoted_passages_of_several_nodes_and_recalled_ones_are_joined() -> None:
    recalled = (Hit(item=MemoryItem(content_summary="Ann bought tea."), score=1.0),)
    one, other = quoting("Which tea?", "Green tea."), quoting("Which tea?", "Green tea.", "Black tea.")
    assert reply_to(one, other, recalled=recalled).text.splitlines()[1:] == [
        "- Green tea.",
        "- Black tea.",
        "- Ann bought tea.",
    ]


def test_the_question_is_what_somebody_said_not_a_prompt_of_the_node() -> None:
    said = Message(role=Role.USER, content="Which tea?", source="user")
    prompt = Message(role=Role.USER, content="Compare your review with earlier ones.", source="workflow")
    reply = reply_to(said, prompt, recalled=(Hit(item=MemoryItem(content_summary="Oolong tea."), score=1.0),))
    assert reply.quotation is not None
    assert reply.quotation.question == "Which tea?"


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("Ann moved the launch to June 2nd.", "Ann moved the launch to June 2nd."),
        ("Ann moved the launch to June 2nd.", "Input: Ann moved the launch to June 2nd."),
        ("When is the launch, Ann?", "When is the launch?"),
        ("李娜对花生过敏。", "输入: 李娜对花生过敏。"),
    ],
)
def test_what_only_repeats_the_input_is_not_quoted(said: str, stored: str) -> None:
    reply = answer(said, (stored, 1.0))
    assert reply.quotation is not None
    assert reply.quotation.passages == ()


def test_a_recent_entry_that_nobody_searched_for_is_quoted_only_if_it_fits() -> None:
    question = Message(role=Role.USER, content="Which tea does Ann drink?", source="user")
    entries = ("The roof leaks.", "Ann drinks oolong.")
    board = tuple(Hit(item=MemoryItem(content_summary=text), score=1.0, recency=1.0) for text in entries)
    assert reply_to(question, recalled=board).text.splitlines()[1:] == ["- Ann drinks oolong."]


@pytest.mark.parametrize(
    ("fits", "signals"),
    [
        (True, {"similarity": 0.3, "lexical": 0.0, "recency": 1.0}),
        (True, {"similarity": 0.1, "lexical": 0.0, "recency": 1.0, "parts": {"window": 0.2}}),
        (False, {"similarity": 0.1, "lexical": 0.0, "recency": 1.0, "parts": {"match": 0.2, "window": 0.02}}),
        (False, {"lexical": 0.0, "recency": 1.0}),
        (True, {}),
    ],
)
def test_an_item_without_a_shared_word_is_quoted_for_its_meaning_or_its_context(
    fits: bool, signals: dict[str, Any]
) -> None:
    hit = Hit(item=MemoryItem(content_summary="Slugs."), score=0.4, **signals)
    question = Message(role=Role.USER, content="What eats vegetables?", source="user")
    assert reply_to(question, recalled=(hit,)).text.endswith("- Slugs.") == fits
