"""The provider without a model: it quotes what was recalled and says that it does."""

from __future__ import annotations

import pytest

from devmem import Hit, MemoryItem
from devmem.messages import Message, Role
from devmem.stores import ChatModel, ChatReply, ChatRequest, open_chat_model


def answer(question: str, *recalled: tuple[str, float]) -> ChatReply:
    hits = tuple(Hit(item=MemoryItem(content_summary=text), score=score) for text, score in recalled)
    messages = (
        Message(role=Role.USER, content="===== Related Memories ====="),
        Message(role=Role.USER, content=question),
        Message(role=Role.ASSISTANT, content="a draft"),
    )
    return open_chat_model("extractive").complete(ChatRequest(messages=messages, recalled=hits))


def test_it_is_a_chat_model_that_needs_nothing() -> None:
    assert isinstance(open_chat_model("extractive"), ChatModel)


def test_quotes_the_three_best_and_says_so() -> None:
    reply = answer("Which tea?", ("third", 0.3), ("first", 0.9), ("fourth", 0.1), ("second\n line", 0.5))
    assert reply.quoted
    head, *quotes = reply.text.splitlines()
    assert "quoted" in head
    assert "no language model" in head
    assert quotes == ["- first", "- second line", "- third"]


def test_nothing_recalled_is_said() -> None:
    reply = answer("Which tea?")
    assert reply.quoted
    assert reply.text == "Nothing fitting is remembered (no language model is configured)."


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


@pytest.mark.parametrize("text", ["x" * 5000, "\n" * 500 + "x", "。" * 900, "茶" * 900])
def test_a_long_item_without_sentences_is_cut(text: str) -> None:
    (quote,) = answer("?", (text, 1.0)).text.splitlines()[1:]
    assert len(quote) <= 402


def test_without_a_question_it_still_answers() -> None:
    request = ChatRequest(messages=(), recalled=(Hit(item=MemoryItem(content_summary="tea"), score=1),))
    assert open_chat_model("extractive").complete(request).text.endswith("- tea")
