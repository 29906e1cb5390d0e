"""Long texts are cut into passages of which none is too long and nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from devmem.text.analysis import PASSAGE_LENGTH, split_passages, split_text

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=300) | st.text("ab .!?。\n", max_size=400)
LIMITS = st.integers(1, 120)


@given(text=TEXTS, limit=LIMITS)
def test_pieces_join_to_the_text(text: str, limit: int) -> None:
    pieces = split_text(text, limit)
    assert "".join(pieces) == text
    assert all(len(piece) <= limit for piece in pieces)


@given(text=TEXTS, limit=LIMITS)
def test_passages_have_every_letter_once(text: str, limit: int) -> None:
    passages = split_passages(text, limit)
    assert "".join("".join(passages).split()) == "".join(text.split())
    assert all(passage.strip() and len(passage) <= limit for passage in passages)


def test_a_short_text_is_one_passage_as_it_is() -> None:
    assert split_passages(" One. Two. ") == [" One. Two. "]
    assert split_passages("x" * PASSAGE_LENGTH) == ["x" * PASSAGE_LENGTH]


def test_sentences_are_kept_together() -> None:
    text = "One two three. Four five six. Seven eight nine."
    assert split_passages(text, 30) == ["One two three. Four five six.", "Seven eight nine."]
    assert split_passages("会议改到星期五。预算是三万元。大家都同意。", 16) == [
        "会议改到星期五。预算是三万元。",
        "大家都同意。",
    ]
