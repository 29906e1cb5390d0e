"""A run asks every question of every case, and says so in rows, in a table and question by question."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from devmem.stores import QueryEmbedding
from devmem.testing import HashEmbedder
from tests.tools.retrieval_data import LOCOMO, LONGMEMEVAL, UNITS, write
from tools.bench.__main__ import app
from tools.bench.retrieval.asking import ask_all
from tools.bench.retrieval.cases import Bm25Case, Case, StoreCase, VectorCase
from tools.bench.retrieval.command import read_datasets
from tools.bench.retrieval.memo import EmbeddingMemo
from tools.bench.retrieval.report import rows_of
from tools.bench.retrieval.running import run, steps
from tools.bench.retrieval.variants import DEFAULT, Variant, parse_variant


def hashed() -> tuple[HashEmbedder, EmbeddingMemo]:
    embedder = HashEmbedder(64)
    return embedder, EmbeddingMemo(lambda _: embedder)


def bench(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["retrieval", *map(str, arguments)], env={"COLUMNS": "200", "TERM": "dumb"})
    return done.exit_code, done.output


def test_the_command_writes_rows_and_questions(tmp_path: Path) -> None:
    locomo = write(tmp_path / "locomo.json", LOCOMO)
    rows_file, questions_file = tmp_path / "rows.json", tmp_path / "questions.json"
    variant = "text={config: {embedding: null}}"
    code, output = bench(locomo, "--markdown", "--json", rows_file, "--questions", questions_file, "--variant", variant)
    assert code == 0, output
    assert "| locomo | devmem | 100.0 |" in output
    assert "locomo: 4 questions on 4 items in 1 haystacks; 2 questions name no evidence" in output
    assert "1 turns without text are left out" in output
    rows: list[dict[str, Any]] = json.loads(rows_file.read_text(encoding="utf-8"))
    assert {row["case"] for row in rows} == {"devmem", "bm25", "vector", "text"}
    assert {(row["bench"], row["dataset"]) for row in rows} == {("retrieval", "locomo")}
    assert {row.get("level") for row in rows} == {"turn", "session", None}
    by_case = {row["case"]: row["value"] for row in rows if row["metric"] == "index_bytes_per_item"}
    assert by_case["devmem"] >= by_case["text"] > by_case["bm25"] > 0
    questions = json.loads(questions_file.read_text(encoding="utf-8"))
    assert len(questions) == 4 * 4
    (cat,) = (one for one in questions if one["id"] == "conv-1/0" and one["case"] == "devmem")
    assert cat["gold"] == ["conv-1/D1:1"]
    assert cat["ranked"][0] == "conv-1/D1:1"
    assert cat["ranked_sessions"][0] == "session_1"
    assert cat["metrics"]["turn"]["mrr"] == 1.0


@pytest.mark.postgres
def test_stores_in_a_database_rank_as_those_in_files(tmp_path: Path) -> None:
    rows_file = tmp_path / "rows.json"
    code, output = bench(write(tmp_path / "locomo.json", LOCOMO), "--postgres", "--json", rows_file)
    assert code == 0, output
    shares: dict[str, dict[tuple[str, ...], float]] = {}
    for row in json.loads(rows_file.read_text(encoding="utf-8")):
        if row["unit"] == "share":
            shares.setdefault(row["case"], {})[row["level"], row["type"], row["metric"]] = row["value"]
    assert shares["postgres"] == shares["devmem"] != {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--variant", "x={config: {memory_pathh: a}}"], "memory_path"),
        (["--variant", "devmem={config: {}}"], "two cases of this name"),
        (["--variant", "x"], "expected NAME="),
        (["missing.json"], "cannot be read"),
        (["other/chat.units.json"], "two data sets are called 'chat'"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_is(tmp_path: Path, arguments: list[str], said: str) -> None:
    code, output = bench(write(tmp_path / "chat.json", UNITS), *arguments)
    assert code == 2
    assert said in " ".join(output.replace("│", " ").split())


def test_adversarial_questions_are_apart_and_not_in_all(tmp_path: Path) -> None:
    (dataset,) = read_datasets([write(tmp_path / "locomo.json", LOCOMO)])
    _, memo = hashed()
    rows = list(rows_of("locomo", run(dataset, [Bm25Case()], memo, lambda _: None)))
    counts = {row.type: row.value for row in rows if row.metric == "questions" and row.level == "turn"}
    assert counts == {"all": 3, "single-hop": 1, "multi-hop": 1, "temporal": 1, "adversarial": 1}


def test_every_step_is_counted(tmp_path: Path) -> None:
    (dataset,) = read_datasets([write(tmp_path / "longmemeval.json", LONGMEMEVAL)])
    _, memo = hashed()
    cases: list[Case] = [StoreCase(DEFAULT), Bm25Case(), VectorCase()]
    done: list[int] = []
    results = run(dataset, cases, memo, done.append)
    assert sum(done) == steps(dataset, cases) == 3 * (7 + 2)
    assert [(result.case, len(result.answers), result.items) for result in results] == [
        ("devmem", 2, 7),
        ("bm25", 2, 7),
        ("vector", 2, 7),
    ]


def test_a_text_is_embedded_once_a_run(tmp_path: Path) -> None:
    (dataset,) = read_datasets([write(tmp_path / "longmemeval.json", LONGMEMEVAL)])
    embedder, memo = hashed()
    variants = [DEFAULT, Variant(name="devall", config={"ranking": "devall"})]
    run(dataset, [*map(StoreCase, variants), VectorCase()], memo, lambda _: None)
    texts = {item.content_summary for haystack in dataset.haystacks for item in haystack.items}
    assert sorted(text for text in embedder.texts if text in texts) == sorted(texts)


class Fixed:
    """Ranks its ids as they are, and notes how many were asked for."""

    index_bytes = 0

    def __init__(self, ids: list[str]) -> None:
        self._ids, self.depths = ids, list[int]()
        self.ranked_sessions: list[str] = []

    def search(self, asked: QueryEmbedding, top_k: int, asked_at: datetime | None = None) -> list[str]:
        self.depths.append(top_k)
        return self._ids[:top_k]

    def sessions(self, asked: QueryEmbedding, top_k: int, asked_at: datetime | None = None) -> list[str]:
        return self.ranked_sessions


def test_enough_turns_are_fetched_for_ten_sessions(tmp_path: Path) -> None:
    units = [{"id": f"{at}", "session": f"S{max(0, at - 150)}", "text": f"turn {at}"} for at in range(170)]
    chat = [{"id": "c", "units": units, "queries": [{"id": "q", "text": "turn", "type": "t", "gold": ["158"]}]}]
    (dataset,) = read_datasets([write(tmp_path / "chat.json", chat)])
    (haystack,) = dataset.haystacks
    searcher = Fixed([item.id for item in haystack.items])
    (answer,) = ask_all(searcher, haystack, hashed()[1])
    assert searcher.depths == [10, 10, 10, 50, 100, 200]
    assert answer.sessions[:10] == [f"S{at}" for at in range(10)]
    assert answer.session is not None
    assert (answer.turn["any@10"], answer.session["any@10"]) == (0.0, 1.0)
    assert answer.turn["mrr"] == pytest.approx(1 / 159)
    searcher.ranked_sessions = ["S8", "S3"]
    (answer,) = ask_all(searcher, haystack, hashed()[1])
    assert answer.sessions[:5] == ["S8", "S3", "S0", "S1", "S2"]
    assert answer.session is not None
    assert answer.session["any@1"] == 1.0


@pytest.mark.parametrize("case", [StoreCase(DEFAULT), Bm25Case(), VectorCase()])
def test_every_case_finds_what_shares_words_with_the_question(tmp_path: Path, case: Case) -> None:
    (dataset,) = read_datasets([write(tmp_path / "chat.json", UNITS)])
    _, memo = hashed()
    (result,) = run(dataset, [case], memo, lambda _: None)
    (answer,) = (answer for _, answer in result.answers)
    assert answer.ranked[0] == "chat/a"
    assert result.index_bytes > 0


def test_a_variant_is_yaml_or_json() -> None:
    short = parse_variant('a={"config": {"ranking": "devall"}}')
    assert (short.name, short.type, short.config) == ("a", "simple", {"ranking": "devall"})
    assert parse_variant("b={search: {words: false, similarity_threshold: 0.2}}").search == {
        "words": False,
        "similarity_threshold": 0.2,
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a={config: [}", "not YAML"),
        ("={}", "expected NAME="),
        ("a=5", "expected NAME="),
        ("a={confg: {}}", "unknown key 'confg'; possible: type, config, search"),
        ("a={search: {top: 5}}", "unknown key 'top'"),
        ("a={search: {words: 5}}", "search.words: expected a bool"),
        ("a={search: {similarity_threshold: true}}", "expected a float"),
        ("a={config: 5}", "config: expected a mapping"),
        ("a={config: {memory_path: mine.db}}", "config.memory_path: leave it out; each haystack gets an empty store"),
        ("a={type: brain, config: {redis: {url: 'redis://here'}}}", "config.redis: leave it out"),
    ],
)
def test_a_wrong_variant_says_what_is_right(given: str, said: str) -> None:
    with pytest.raises(ValueError, match="--variant") as caught:
        parse_variant(given)
    assert said in str(caught.value)
