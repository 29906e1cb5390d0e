"""Worth of each signal of the ranking to a data set, and with one data set left out."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from devmem.search.score import WEIGHTS
from tests.tools.retrieval_data import LOCOMO, write
from tools.bench.__main__ import app


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
