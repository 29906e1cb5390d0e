"""Recalled text is not stored again; everything new is."""

from __future__ import annotations

import pytest

from devmem import MemoryContentSnapshot, MemoryManager, MemoryWritePayload
from devmem.search import repeats_recalled, says_nothing_new
from devmem.stores import WriteStatus

from .doubles import ScriptedStore, hit, manager_of, said

KNOWN = "Input: When is it due?\nOutput: The deadline is May 5. Ann owns it; Bo reviews."


def recalling(query: str, *known: str) -> tuple[MemoryManager, ScriptedStore, str]:
    """A manager that recalled the known texts for a query, its store, and the block."""
    store = ScriptedStore(hits=[hit(text) for text in known])
    manager = manager_of(store)
    recalled = manager.retrieve(query=query)
    assert recalled is not None
    return manager, store, recalled.formatted_text


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("The deadline is May 5.", id="a sentence"),
        pytest.param("**The deadline is MAY 5!**\n- Ann owns it;\n- Bo reviews.", id="other dress"),
        pytest.param("1. Input: When is it due?\n   Output: The deadline is May 5.", id="as the block has it"),
        pytest.param("1. 输入: When is it due?\n   输出: The deadline is May 5.", id="as a Chinese block has it"),
    ],
)
def test_an_answer_that_only_repeats_is_not_stored_when_the_input_only_asks(answer: str) -> None:
    manager, store, _ = recalling("When is the deadline?", KNOWN)
    result = manager.update(said("When is the deadline?", answer))
    (write,) = result.writes
    assert write.outcome.status is WriteStatus.SKIPPED
    assert "repeats" in write.outcome.reason
    assert store.payloads == []


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("The deadline is May 5. I moved the review to Monday, and Chris takes part.", id="adds"),
        pytest.param("The deadline is May 6.", id="contradicts"),
        pytest.param("Yes.", id="a word that stands inside a known one"),
        pytest.param("B.", id="a letter that stands inside a known word"),
        pytest.param("5", id="a number that stands inside a known sentence"),
        pytest.param("Ann owns.", id="the start of a known sentence"),
        pytest.param("No: the deadline is May 5.", id="a label that nobody had"),
    ],
)
def test_an_answer_that_says_more_is_stored(answer: str) -> None:
    manager, store, _ = recalling("Still?", KNOWN + " It was agreed yesterday.")
    manager.update(said("Still?", answer))
    assert [payload.output_text() for payload in store.payloads] == [answer]


def test_the_opposite_of_what_is_known_is_stored() -> None:
    manager, store, _ = recalling("What shall we do with the app?", "Do not deploy the app on Friday.")
    manager.update(said("What shall we do with the app?", "Deploy the app on Friday."))
    assert len(store.payloads) == 1


def test_an_input_that_states_something_is_stored_without_the_repeated_answer() -> None:
    asked = "By the way, Chris left the team. When is the deadline?"
    manager, store, _ = recalling(asked, KNOWN)
    manager.update(said(asked, "The deadline is May 5."))
    (payload,) = store.payloads
    assert (payload.inputs_text, payload.output_snapshot) == (asked, None)


def test_a_quoted_answer_is_never_stored_whatever_it_says() -> None:
    manager, store, _ = recalling("When?", KNOWN)
    manager.update(said("When?", "Remembered passages that fit best: something else", quoted=True))
    assert store.payloads == []
    manager.update(said("Chris left.", "Remembered passages that fit best: something else", quoted=True))
    assert [(payload.inputs_text, payload.output_snapshot) for payload in store.payloads] == [("Chris left.", None)]


def test_the_same_words_are_new_when_they_were_not_recalled_for_this_input() -> None:
    manager, store, _ = recalling("When is the deadline?", KNOWN)
    manager.update(said("What did Dee say?", "The deadline is May 5."))
    assert len(store.payloads) == 1


def test_the_frames_around_an_input_do_not_hide_an_echo() -> None:
    framed = "=== INPUT FROM Data Analyst (user) ===\n\nWhen is the deadline?"
    manager, store, _ = recalling(framed, KNOWN)
    manager.update(said(framed, "The deadline is May 5."))
    assert store.payloads == []


def test_chinese_is_recognised_too() -> None:
    manager, store, _ = recalling("截止日期是哪天？", "Input: 什么时候？\nOutput: 截止日期是五月五日。由安负责。")
    manager.update(said("截止日期是哪天？", "截止日期是五月五日。"))
    assert store.payloads == []
    manager.update(said("截止日期是哪天？", "截止日期改到六月一日。"))
    assert len(store.payloads) == 1


def snapshot(text: str) -> MemoryContentSnapshot:
    return MemoryContentSnapshot(text=text)


def test_a_block_of_memories_is_stored_from_neither_side() -> None:
    manager, store, block = recalling("Chris left. When?", KNOWN)
    prompt = f"{block}\n\nChris left. When?"
    manager.update(
        MemoryWritePayload(
            inputs_text=prompt,
            input_snapshot=snapshot(f"(user) x\n\n{prompt}"),
            output_snapshot=snapshot(f"{block}\n\nSo Ann must hurry."),
        )
    )
    (payload,) = store.payloads
    assert payload.inputs_text == "Chris left. When?"
    assert payload.input_snapshot == snapshot("(user) x\n\nChris left. When?")
    assert payload.output_snapshot == snapshot("So Ann must hurry.")


def test_an_answer_that_is_only_the_block_is_an_echo() -> None:
    manager, store, block = recalling("When?", KNOWN)
    manager.update(said("When?", block))
    assert store.payloads == []


def test_an_empty_answer_is_no_echo() -> None:
    manager, store, _ = recalling("When?", KNOWN)
    manager.update(said("When?", ""))
    assert [payload.inputs_text for payload in store.payloads] == ["When?"]


@pytest.mark.parametrize(
    ("answer", "known", "repeated"),
    [
        ("", ["x"], False),
        ("...", ["x"], False),
        ("anything", [], False),
        ("One two three four five six. Seven.", ["one two, three (four) five six"], True),
        ("One two three. Four five six seven.", ["one two three"], False),
        ("[2024-05-05] Tea was served.", ["Tea was served"], True),
        ("Tea. Cake.", ["tea", "cake"], True),
        ("tea cake", ["tea", "cake"], False),
    ],
)
def test_an_echo_is_four_fifths_of_the_sentences_word_for_word(answer: str, known: list[str], repeated: bool) -> None:
    assert repeats_recalled(answer, known) is repeated


@pytest.mark.parametrize(
    ("text", "nothing"),
    [
        ("When?", True),
        ("什么时候？在哪里？", True),
        ("When? \n Where?", True),
        ("", True),
        ("...", True),
        ("Ann left. When?", False),
        ("Tea was served! When?", True),
        ("Tea was served in the garden. When?", False),
        ("When? Tell me.", False),
        ("see https://example.com/?q=1", False),
    ],
)
def test_a_text_says_nothing_new_when_it_asks_or_repeats(text: str, nothing: bool) -> None:
    assert says_nothing_new(text, ["They say: Tea was served."]) is nothing


def test_the_same_exchange_again_is_not_stored_in_another_form() -> None:
    asked = "Remember that the deadline is May 5."
    manager, store, _ = recalling(asked, f"Input: {asked}\nOutput: I will remember it.")
    manager.update(said(asked, "I will remember it."))
    assert store.payloads == []
