"""The benchmarks are found by name, and each writes flat rows."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from devmem.model.items import MemoryItem
from devmem.storage import SqliteCollection
from devmem.testing import HashEmbedder
from tests.tools.retrieval_data import LOCOMO
from tools.bench.__main__ import app
from tools.bench.speed.processes import ROOT


def run(folder: Path, *arguments: object) -> tuple[str, list[dict[str, Any]]]:
    """Return what a benchmark prints, and the rows that it writes."""
    file = folder / "rows.json"
    done = CliRunner().invoke(app, [*map(str, arguments), "--json", str(file)])
    assert done.exit_code == 0, done.output
    return done.output, json.loads(file.read_text(encoding="utf-8"))


def measured(folder: Path, *arguments: object) -> list[dict[str, Any]]:
    return run(folder, *arguments)[1]


def test_every_benchmark_is_listed() -> None:
    output = CliRunner().invoke(app, ["--help"]).output
    assert all(name in output for name in ("store", "adapters", "file_store", "retrieval", "speed"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sped"], "No such command"),
        (["adapters", "nowhere"], "nowhere"),
        (["providers", "DATA", "--only", "minlm"], "no such case"),
        (["memory", "--sizes", "1k"], "--sizes takes numbers"),
        (["vectors", "--sizes", "few"], "'few' is no size"),
        (["commits", "--writers", "0"], "--writers takes numbers of processes"),
        (["commits", "--writers", "1,x"], "--writers takes numbers of processes"),
        (["providers", "DATA", "--size", "many"], "'many' is no size"),
        (
            ["providers", "DATA", "--size", "1M", "--only", "minilm"],
            "turns are too few to make texts of 1,000,000 items",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(words: list[str], message: str, tmp_path: Path) -> None:
    data = tmp_path / "data.json"
    data.write_text(json.dumps(LOCOMO), encoding="utf-8")
    done = CliRunner().invoke(app, [str(data) if word == "DATA" else word for word in words], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert message in done.output


def test_vectors_that_the_index_finds(tmp_path: Path) -> None:
    found = measured(tmp_path, "vectors", "--sizes", "6k", "--questions", "10")
    rows = {row["metric"]: row["value"] for row in found}
    assert rows["recall@10"] >= 0.9
    assert rows["recall@200"] >= 0.97
    assert rows["largest_error@200"] < 5e-3


def test_rows_leave_out_what_does_not_apply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEVMEM_BENCH_MODEL", raising=False)
    sources = tmp_path / "sources"
    sources.mkdir()
    for number in range(4):
        (sources / f"part_{number}.py").write_text(f"def part_{number}():\n    return {number}\n" * (number + 1))
    rows = measured(tmp_path, "file_store", str(sources))
    assert {tuple(row) for row in rows} == {("bench", "case", "metric", "value", "unit")}
    assert {row["case"] for row in rows} >= {"first", "no_change", "one_changed", "one_deleted", "one_renamed"}


@pytest.mark.kit
def test_nothing_is_left_of_a_user_among_a_few(tmp_path: Path) -> None:
    rows = measured(tmp_path, "forgetting", "--users", "3")
    values = {row["metric"]: row["value"] for row in rows}
    assert (values["words_before"], values["words_left"], values["words_of_others_lost"]) == (50, 0, 0)


@pytest.mark.kit
def test_the_store_benchmark_opens_its_file_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.bench.store._SIZES", {"1k": 20, "10k": 30})
    monkeypatch.setattr("tools.bench.store._UPDATES", 10)
    monkeypatch.setattr("tools.bench.store._QUERIES", 5)
    rows = measured(tmp_path, "store")
    assert {row["case"] for row in rows if row["metric"] == "cold_open"} == {"1k", "10k"}
    assert all(row["value"] > 0 for row in rows)


def test_faiss_is_loaded_after_the_clock_of_cold_open_was_started() -> None:
    code = (
        "import sys, tools.bench.simple_store, tools.bench.speed.measured.devmem_store; print('faiss' in sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert loaded.stdout.strip() == "False"


@pytest.mark.postgres
def test_collections_are_measured_side_by_side(tmp_path: Path) -> None:
    rows = measured(tmp_path, "collections", "--sizes", "300", "--cache", str(tmp_path))
    assert {row["case"] for row in rows} == {"sqlite:300", "postgres:300"}
    shares = {(row["case"], row["metric"]): row["value"] for row in rows if row["unit"] == "share"}
    assert len(shares) == 6
    assert min(shares.values()) > 0.99


@pytest.mark.postgres
def test_commits_of_one_store_and_of_several_are_measured(tmp_path: Path) -> None:
    rows = measured(tmp_path, "commits", "--writers", "1,2", "--count", "3")
    places = {"insert:one_store:1", "insert:one_store:2", "insert:own_stores:2"}
    assert places <= {row["case"] for row in rows if row["metric"] == "commits_per_s"}
    assert all(row["value"] > 0 for row in rows)


@pytest.mark.kit
def test_adapters_are_measured_in_their_environments(tmp_path: Path) -> None:
    python = tmp_path / "mcp/venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    output, rows = run(tmp_path, "adapters", "mcp", "strands", "--envs", tmp_path, "--items=5", "--rounds=3")
    assert "strands: left out" in output
    figures = {row["metric"]: row["value"] for row in rows}
    assert figures["put_to_store"] == pytest.approx(figures["put_p50"] / figures["store_put_p50"])
    assert figures["search_p50"] > 0


def test_the_bytes_of_an_item_are_counted_by_kind(tmp_path: Path) -> None:
    """On disk they are those of the files, and the store itself is only read."""
    store, embedder = tmp_path / "store.db", HashEmbedder()
    texts = [f"note {number} about tea" for number in range(300)]
    items = [MemoryItem(content_summary=text, embedding=embedder.vector(text)) for text in texts]
    with closing(SqliteCollection(store, model=embedder.identity)) as collection:
        collection.add(items)
    before = store.read_bytes()
    sizes = {row["metric"]: row["value"] for row in measured(tmp_path, "bytes", store)}
    dimension = embedder.identity.dimension or 0
    assert sizes["memory: vectors"] == 4 * dimension, "few are float32"
    assert dimension < sizes["disk: vectors"] < 2 * dimension
    assert sizes["disk: token codes"] < sizes["disk: terms"]
    on_disk = {name: size for name, size in sizes.items() if name.startswith("disk: ")}
    in_file = [size for name, size in on_disk.items() if not name.startswith(("disk: all", "disk: snapshot"))]
    assert len(before) / len(items) == pytest.approx(sum(in_file), rel=0.05)
    assert on_disk.pop("disk: all") == pytest.approx(sum(on_disk.values()))
    assert store.read_bytes() == before


def measured_providers(folder: Path, *options: str) -> dict[tuple[str, str], float]:
    dataset = folder / "talks.json"
    dataset.write_text(json.dumps(LOCOMO), "utf-8")
    output, rows = run(folder, "providers", dataset, "--size", "12", *options)
    assert "| minilm |" in output
    return {(row["case"], row["metric"]): row["value"] for row in rows if row.get("level") in ("turn", None)}


def test_providers_are_measured_side_by_side(tmp_path: Path) -> None:
    found = measured_providers(tmp_path, "--only", "minilm, no tokens")
    assert found["minilm", "search_to_minilm"] == 1
    assert found["minilm, no tokens", "recall@10"] == 1
    assert found["minilm, no tokens", "disk_bytes_per_item"] > 0


@pytest.mark.kit
def test_every_installed_provider_is_measured(tmp_path: Path) -> None:
    """An exported all-MiniLM-L6-v2 ranks as the original does."""
    found = measured_providers(tmp_path)
    names = {case for case, _ in found}
    assert names >= {"minilm", "e5", "service", "service, tokens of minilm", "onnx", "onnx, no tokens"}
    assert all(found[name, "recall@10"] == 1 for name in names)


@pytest.mark.kit
def test_the_calls_of_a_memory_are_measured(tmp_path: Path) -> None:
    rows = measured(tmp_path, "memory", "--sizes", "50")
    assert {row["case"] for row in rows} == {"0.05k"}
    assert [row["metric"] for row in rows] == [
        "batch_add_per_s",
        "search_p50",
        "get_p50",
        "add_text_p50",
        "add_message_p50",
    ]
    assert all(row["value"] > 0 for row in rows)


def test_the_prompt_benchmark_measures_statements_times_and_a_talk(tmp_path: Path) -> None:
    days = [{"id": f"u{day}", "date": f"2024-03-{day:02}", "text": f"Boat job {day + 10}."} for day in range(1, 29)]
    asked = {
        "id": "t",
        "text": "What did we do yesterday?",
        "type": "time:day",
        "asked_at": "2024-03-12T07:00:00+08:00",
    }
    times = [{"id": "c", "units": days, "queries": [{**asked, "gold": ["u11"]}]}]
    told = {"id": "s", "text": "I painted the boat green.", "type": "cue", "gold": ["u5"]}
    (tmp_path / "times.json").write_text(json.dumps(times))
    (tmp_path / "cues.json").write_text(json.dumps([{"id": "c", "units": days, "queries": [told]}]))
    talk = {
        "turns": [["The launch is on Monday.", "Noted."], ["The launch is on Friday now.", "Noted."]],
        "probes": [
            {"question": "When is the launch?", "needed": ["on Friday"], "stale": ["on Monday"]},
            {"question": "When is the launch?", "needed": ["on Sunday"]},
        ],
        "off_topic": ["Explain recursion."],
    }
    (tmp_path / "talk.yaml").write_text(json.dumps(talk))
    (tmp_path / "idle.json").write_text(json.dumps({"thanks": ["Thank you!", "ok"]}))
    times_file, cues_file, talk_file, idle_file = (
        tmp_path / name for name in ("times.json", "cues.json", "talk.yaml", "idle.json")
    )
    found = measured(tmp_path, "prompt", times_file, cues_file, "--talk", talk_file, "--idle", idle_file)
    rows = {(row["case"], row["metric"]): row["value"] for row in found}
    assert rows["periods", "period_precision@10"] == 1.0
    assert 0 <= rows["statements", "recall@10"] <= rows["statements", "any@10"] <= 1
    assert rows["silence: 0.33", "silent thanks"] == 1.0
    assert 0 <= rows["silence: 0.40", "recall@10"] <= rows["silence: 0.28", "recall@10"] <= 1
    assert rows["changed", "evidence_kept"] <= 0.5
    assert rows["changed", "tokens"] > 0
    assert {name for case, name in rows if case == "off_topic"} == {"lines_shown", "tokens"}
