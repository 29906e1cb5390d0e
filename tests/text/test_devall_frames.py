"""The frames that DevAll puts around inputs are recognised, and nothing else is."""

from __future__ import annotations

import pytest

from devmem.text.devall_frames import frame, framed_turns, split_turns, strip_frames


def test_a_frame_is_written_as_devall_writes_it() -> None:
    assert frame("planner", "assistant", "the plan") == "=== INPUT FROM planner (assistant) ===\n\nthe plan"
    assert frame("", "user", "hi") == "=== INPUT FROM UNKNOWN (user) ===\n\nhi"


@pytest.mark.parametrize(
    "text", ["plain", "a === b", "=== not a frame ===", "say === INPUT FROM x (user) === here", ""]
)
def test_what_only_looks_like_a_frame_stays(text: str) -> None:
    assert strip_frames(text) == text
    assert split_turns(text) == [text][: len(text)]


def test_frames_without_a_text() -> None:
    assert strip_frames(frame("a", "user", "")) == ""
    assert split_turns(frame("a", "user", "  ")) == []


@pytest.mark.parametrize("source", ["planner", "node with spaces", "计划", "a (b)", "x=y"])
def test_turns_have_their_senders_and_roles(source: str) -> None:
    text = "\n\n".join(
        [frame(source, "user", "one\n\n1"), frame("critic", "assistant", "two"), frame(source, "user", "")]
    )
    assert framed_turns(text) == [(source, "user", "one\n\n1"), ("critic", "assistant", "two")]


def test_nobody_is_named_by_an_unnamed_frame_or_a_plain_text() -> None:
    assert framed_turns(frame("", "user", "hi")) == [("", "user", "hi")]
    assert framed_turns("INPUT FROM x (user) === hi") == [("", "user", "INPUT FROM x (user) === hi")]


def test_text_before_the_first_frame_is_a_turn_of_its_own() -> None:
    text = "Before.\n\n" + frame("critic", "assistant", "After.")
    assert framed_turns(text) == [("", "user", "Before."), ("critic", "assistant", "After.")]
