"""Questions with a typo: one word each, the same in every run."""

from __future__ import annotations

from pathlib import Path

from rapidfuzz.distance import OSA

from tests.tools.retrieval_data import LOCOMO, write
from tools.bench.retrieval.command import read_datasets
from tools.bench.retrieval.typos import as_statements, with_typos


def test_one_word_of_a_question_is_misspelled(tmp_path: Path) -> None:
    (plain,) = read_datasets([write(tmp_path / "locomo.json", LOCOMO)])
    mistyped = with_typos(plain)
    assert mistyped == with_typos(plain)
    changed = 0
    for before, after in zip(plain.haystacks, mistyped.haystacks, strict=True):
        assert before.items == after.items
        for asked, typed in zip(before.questions, after.questions, strict=True):
            pairs = zip(asked.text.split(" "), typed.text.split(" "), strict=True)
            words = [(right, wrong) for right, wrong in pairs if right != wrong]
            changed += len(words)
            assert len(words) <= 1
            assert all(OSA.distance(right, wrong) == 1 and right[0] == wrong[0] for right, wrong in words)
    assert changed


def test_a_question_is_stated_without_the_words_that_ask(tmp_path: Path) -> None:
    group = {
        "id": "g",
        "units": [{"id": "1", "session": "s", "speaker": "Ann", "date": "2026-05-08", "text": "The mill is old."}],
        "queries": [
            {"id": str(number), "text": text, "type": "t", "gold": ["1"]}
            for number, text in enumerate(
                ("When did Ann visit the old mill?", "How many mills has she seen?", "The mill")
            )
        ],
    }
    (stated,) = read_datasets([write(tmp_path / "mills.json", [group])])
    texts = [one.text for one in as_statements(stated).haystacks[0].questions]
    assert texts == ["Ann visit the old mill.", "mills she seen.", "The mill."]
