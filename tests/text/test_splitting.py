"""Long texts: sentences and passages, shortening, and choosing the sentences that say most."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.text import count_words, extract_summary
from devmem.text.analysis import PASSAGE_LENGTH, estimate_tokens, shorten, split_passages, split_sentences, split_text
from tests.cases import cases

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=200) | st.text('ab .!?。！；\n")”', max_size=200)


@given(text=TEXTS)
def test_sentences_joined_give_the_text_back(text: str) -> None:
    pieces = split_sentences(text)
    assert "".join(pieces) == text
    assert all(pieces)


@pytest.mark.parametrize(
    ("text", "wanted"),
    cases("text_splitting", "where_sentences_end"),
)
def test_where_sentences_end(text: str, wanted: list[str]) -> None:
    assert split_sentences(text) == wanted


@given(text=TEXTS, limit=st.integers(0, 120))
def test_a_shortened_text_never_exceeds_its_limit(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit
    assert short == text.strip() or short.endswith("…") or limit == 0
    assert text.strip().startswith(short.removesuffix("…").rstrip())


def test_whole_sentences_are_kept() -> None:
    assert shorten("One sentence. Another one. A third.", 30) == "One sentence. Another one.…"
    assert shorten("short enough", 12) == "short enough"


def test_a_long_first_sentence_is_cut_at_a_word() -> None:
    assert shorten("one two three four five six seven eight", 20) == "one two three four…"
    assert shorten("x" * 50, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("hello world", 2, 3),
        ("internationalisation", 2, 5),
        ("会议改到星期五。", 8, 8),
        ("naïve\u3000テスト", 5, 8),
        ("a, b; c!", 5, 7),
    ],
)
def test_what_a_text_costs(text: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(text) <= most


LONG_TEXTS = st.text(st.characters(exclude_categories=[]), max_size=300) | st.text("ab .!?。\n", max_size=400)
LIMITS = st.integers(1, 120)


@given(text=LONG_TEXTS, limit=LIMITS)
def test_pieces_join_to_the_text(text: str, limit: int) -> None:
    pieces = split_text(text, limit)
    assert "".join(pieces) == text
    assert all(len(piece) <= limit for piece in pieces)


@given(text=LONG_TEXTS, limit=LIMITS)
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


TEXT = (
    "The launch moved to June. Hello there. The launch of the boat needs three tents. What a day. "
    "The boat comes from Lisbon for the launch. I like cake."
)


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("a b-c, d", 3), ("it's -- fine!", 2), ("发布会", 3), ("五月3日", 4), ("\ud800", 0)]
)
def test_counting_words(text: str, count: int) -> None:
    assert count_words(text) == count


def test_what_most_of_the_text_is_about_is_kept_in_order() -> None:
    found = extract_summary(TEXT, 22)
    assert found == (
        "The launch moved to June. The launch of the boat needs three tents. The boat comes from Lisbon for the launch."
    )


def test_chinese() -> None:
    text = "发布会改到五月三日。天气很好。发布会的帐篷由李雷准备。我饿了。"
    assert extract_summary(text, 22) == "发布会改到五月三日。发布会的帐篷由李雷准备。"


def test_of_one_long_sentence_the_beginning_is_kept() -> None:
    assert extract_summary("word " * 50, 3) == "word word word"
    assert extract_summary("…… !!! ……" * 9, 3) == "…… !!! ……" * 9


@given(text=st.text(max_size=300), limit=st.integers(1, 40))
def test_a_summary_is_made_of_the_text_and_keeps_the_limit(text: str, limit: int) -> None:
    found = extract_summary(text, limit)
    assert count_words(found) <= limit
    assert bool(found) == bool(text.strip()) or count_words(text) > limit
    at = 0
    for sentence in split_sentences(found):
        assert (at := text.find(sentence.strip(), at)) >= 0
