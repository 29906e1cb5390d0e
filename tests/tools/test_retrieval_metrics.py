"""The measures of a ranking, questions with a typo, and the worth of each signal, with BM25 to compare with."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from math import log2
from pathlib import Path
from typing import Any

import pytest
from rapidfuzz.distance import OSA
from typer.testing import CliRunner

from devmem import MemoryContentSnapshot, MemoryItem
from devmem.model.items import SourceKind
from devmem.search.indexes.passages import indexed_text
from devmem.search.indexes.postings import PostingsIndex
from devmem.search.indexes.scoring import encode_terms
from devmem.search.score import WEIGHTS
from devmem.stores import Provenance, QueryEmbedding
from devmem.text.query_text import QueryText
from tests.tools.retrieval_data import LOCOMO, write
from tools.bench.__main__ import app
from tools.bench.retrieval.command import read_datasets
from tools.bench.retrieval.metrics import measure, sessions_of
from tools.bench.retrieval.references import Bm25
from tools.bench.retrieval.typos import as_statements, with_typos

IDS = [f"i{number}" for number in range(20)]


def test_two_of_three_found() -> None:
    found = measure(["x", "a", "y", "b", "z", "w"], {"a", "b", "c"})
    assert (found["any@1"], found["all@1"], found["recall@1"]) == (0.0, 0.0, 0.0)
    assert (found["any@5"], found["all@5"], found["recall@5"]) == (1.0, 0.0, 2 / 3)
    assert found["mrr"] == 0.5
    gained = 1 + 1 / log2(4)
    best = 1 + 1 + 1 / log2(3)
    assert found["ndcg@10"] == pytest.approx(gained / best)
    assert found["ndcg@10"] == pytest.approx(0.57014, abs=1e-5)


def test_all_found_at_the_top() -> None:
    assert set(measure(["a", "b"], {"a", "b"}).items()) >= {
        ("any@1", 1.0),
        ("all@1", 0.0),
        ("recall@1", 0.5),
        ("all@5", 1.0),
        ("recall@10", 1.0),
        ("ndcg@10", 1.0),
        ("mrr", 1.0),
    }


def test_more_gold_than_ten_can_still_be_ranked_perfectly() -> None:
    found = measure(IDS[:10], set(IDS))
    assert (found["ndcg@10"], found["recall@10"], found["all@10"]) == (1.0, 0.5, 0.0)


def test_the_reciprocal_rank_looks_beyond_ten() -> None:
    assert measure(IDS, {IDS[15]})["mrr"] == pytest.approx(1 / 16)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="without gold"):
        measure(["a"], frozenset())
    with pytest.raises(ValueError, match="twice"):
        measure(["a", "a"], {"a"})


def test_a_session_is_ranked_by_its_best_turn() -> None:
    session_of = {"a": "s1", "b": "s2", "c": "s1", "d": "s3"}
    assert sessions_of(["x", "c", "b", "a", "d"], session_of) == ["s1", "s2", "s3"]


def item(text: str, *, day: int | None = None, said: str = "", file: str = "") -> MemoryItem:
    return MemoryItem(
        id=text[:12],
        content_summary=text,
        event_time=None if day is None else datetime(2024, 3, day, tzinfo=UTC).timestamp(),
        output_snapshot=MemoryContentSnapshot(text=said) if said else None,
        provenance=Provenance(kind=SourceKind.FILE, name=file) if file else Provenance(),
    )


ITEMS = [
    item("The key is under the mat.", day=15),
    item("The bus leaves at nine, and it is the last one of the day that we can take.", day=16),
    item("A bus came at nine.", day=17),
    item("她在北京买了一只风筝。", day=18),
    item("风很大，北边的筝断了。"),
    item("Input: where is the key? Output: on the ...", said="On the bus, under the last seat, as I said."),
    item("Nothing of it.", file="timetable.md"),
]


def ranked(items: list[MemoryItem], query: str) -> list[str]:
    return Bm25(items, lambda _: None).search(QueryEmbedding(query), 10)


@pytest.mark.parametrize(
    "query",
    [
        "Where is the key?",
        "the last bus at nine",
        "What was on 16 March 2024?",
        "北京的风筝在哪",
        "timetable",
        "seat key 筝",
    ],
)
def test_bm25_alone_ranks_short_items_as_the_store_s_full_text(query: str) -> None:
    index = PostingsIndex()
    texts = [one.content_summary if one.output_snapshot is None else one.full_text() for one in ITEMS]
    rows = range(len(ITEMS))
    index.add(rows, [encode_terms(indexed_text(text, one)) for text, one in zip(texts, ITEMS, strict=True)])
    assert ranked(ITEMS, query) == [ITEMS[row].id for row in index.query(QueryText(query)).top(10)] != []


def bench(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["signals", *map(str, arguments)], env={"COLUMNS": "200", "TERM": "dumb"})
    return done.exit_code, done.output


def test_the_command_writes_a_row_for_each_signal_and_data_set(tmp_path: Path) -> None:
    # Between two cats, one of which is Mara's, only the speaker decides.
    doubled = json.loads(json.dumps(LOCOMO))
    turns = doubled[0]["conversation"]["session_1"]
    turns.append({"speaker": "Jonas", "dia_id": "D1:3", "text": "I adopted a cat called Pixel too."})
    doubled[0]["qa"] = [{"question": "What did Mara adopt?", "answer": "Pixel", "evidence": ["D1:1"], "category": 4}]
    files = [write(tmp_path / "chat.json", doubled), write(tmp_path / "other.json", LOCOMO)]
    rows_file, stores = tmp_path / "rows.json", tmp_path / "stores"
    code, output = bench(*files, "--stores", stores, "--markdown", "--json", rows_file)
    assert code == 0, output
    rows: list[dict[str, Any]] = json.loads(rows_file.read_text(encoding="utf-8"))
    counted = [weight.name for weight in fields(WEIGHTS) if getattr(WEIGHTS, weight.name)]
    assert {row["case"] for row in rows} == {"all signals", *counted}
    assert {row["dataset"] for row in rows} == {"chat", "other", "least without one set"}
    values = {(row["case"], row["dataset"], row["metric"]): row["value"] for row in rows}
    assert values["all signals", "chat", "ndcg@10"] == pytest.approx(100)
    assert values["standing", "chat", "ndcg@10"] == 0
    assert "| signal | chat | other | least without one set |" in output
    imported = {file: file.stat().st_ino for file in stores.glob("*/*/bench.db")}
    assert len(imported) == 2
    again = tmp_path / "again.json"
    assert bench(files[0], "--stores", stores, "--json", again)[0] == 0
    assert {file: file.stat().st_ino for file in stores.glob("*/*/bench.db")} == imported
    found = {(row["case"], row["dataset"], row["metric"]): row["value"] for row in json.loads(again.read_text())}
    assert found == {key: value for key, value in values.items() if key[1] == "chat"}


def test_a_file_that_is_no_data_set_is_refused(tmp_path: Path) -> None:
    code, output = bench(write(tmp_path / "notes.json", {"no": "data set"}))
    assert code == 2
    assert "notes.json" in output


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
