"""A run asks every question of every case, and says so in rows, in a table and question by question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from devmem.testing import HashEmbedder
from tests.tools.retrieval_data import LOCOMO, UNITS, write
from tools.bench.__main__ import app
from tools.bench.retrieval.cases import Bm25Case
from tools.bench.retrieval.command import read_datasets
from tools.bench.retrieval.memo import EmbeddingMemo
from tools.bench.retrieval.report import rows_of
from tools.bench.retrieval.running import run
from tools.bench.retrieval.variants import parse_variant


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
