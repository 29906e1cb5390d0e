"""Windows over a long text, and the summaries made of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.models import split_texts
from devmem.testing import ScriptedChat

from .conftest import MakeBrain


@pytest.mark.parametrize(
    ("length", "window", "lengths"),
    [
        (100, 40, [40, 40, 40, 40, 20]),
        (60, 40, [40, 40, 20]),
        (80, 40, [40, 40, 40, 20]),
        (41, 40, [40, 21]),
        (40, 40, [40]),
        (0, 40, [0]),
        (45, 20, [20, 20, 5]),
        (600, 0, [500, 120]),
        (600, -1, [500, 120]),
        (45, 21, [21] * 25 + [20]),
    ],
)
def test_windows_of_metagpt(length: int, window: int, lengths: list[int]) -> None:
    assert [len(part) for part in split_texts("x" * length, window)] == lengths


@given(text=st.text(max_size=400), window=st.integers(-5, 120))
def test_windows_hold_the_whole_text(text: str, window: int) -> None:
    parts = split_texts(text, window)
    size = window if window > 0 else 500
    overlap = 20 if size > 20 else 0
    assert all(len(part) <= size for part in parts)
    assert parts[0] + "".join(part[overlap:] for part in parts[1:]) == text


def words(count: int, start: int = 0) -> str:
    return " ".join(f"w{n:05d}" for n in range(start, start + count))


def test_a_long_text_goes_through_window_by_window(make_brain: MakeBrain) -> None:
    """Each part gets its share of the words; the parts become one."""
    chat = ScriptedChat(*[f"part {n} " + words(25) for n in range(5)], "all in one")
    brain = make_brain(chat=chat).brain()
    brain.add_talk(words(985))
    assert brain.summarize(100) == "all in one"
    said = [request.messages[0].content for request in chat.requests]
    assert ["fewer than 21 words" in text for text in said] == [True] * 5 + [False]
    assert "fewer than 100 words" in said[-1]
    assert all(1300 < len(text) <= 1480 for text in chat.asked[:5])
    assert " ".join(chat.asked[:5]).split() == ["user:", *words(985).split()]
    assert chat.asked[-1].startswith("part 0 ")


def test_a_summary_ends_in_no_piece_of_a_message(make_brain: MakeBrain) -> None:
    """Where the messages fill a little more than a window, each window holds whole ones."""
    chat = ScriptedChat("The first part.", "The second part.")
    brain = make_brain(chat=chat).brain()
    talk = [f"Ann buys {words(20)} for boat number {n} and nails, too." for n in range(9)]
    brain.add_talk("\n".join(talk))
    assert len("\n".join(talk)) > 1480
    assert brain.summarize(100) == "The first part.\nThe second part."
    lines = [line.strip() for window in chat.asked for line in window.splitlines()]
    assert lines == [f"user: {talk[0]}", *talk[1:]]
    assert min(len(window) for window in chat.asked) > 500
