"""The demo: what it remembers, what it finds, and that it can be repeated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from configs.demo import run
from devmem.transfer.importing.formats import read_records

DEMO = Path(run.__file__).parent


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the demo's workflow, so that its files are made elsewhere."""
    team = Path(shutil.copy(DEMO / "team.yaml", tmp_path))
    monkeypatch.setattr(run, "_TEAM", team)
    return team


def answers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, Any]]:
    found: dict[str, Any] = {}
    shown = run.show

    def note(console: Console, answer: dict[str, Any]) -> None:
        found[answer["input"]] = answer["nodes"][0]["recalled"]
        shown(console, answer)

    monkeypatch.setattr(run, "show", note)
    run.main()
    return capsys.readouterr().out, found


@pytest.mark.parametrize(
    ("question", "old", "new"),
    [
        ("When is the grant application due?", "12 June", "26 June"),
        ("Where does the workshop take place?", "at the Lakehouse", "the Old Mill"),
        ("What is the phone number of the caterer?", "555-0134", "555-0178"),
        ("Who gives the opening talk?", "Professor Adeyemi gives", "Doctor Okafor"),
        ("How much money is in the budget?", "8,000 euros", "9,500 euros"),
        ("When does the boat trip start?", "two in the afternoon", "three in the afternoon"),
    ],
)
def test_the_conversation_has_the_facts_that_change(question: str, old: str, new: str) -> None:
    questions = [json.loads(line)["question"] for line in (DEMO / "questions.jsonl").read_text("utf-8").splitlines()]
    told = (DEMO / "conversation.jsonl").read_text("utf-8") + " ".join(run._SAID_TODAY)
    assert question in questions
    assert told.index(old) < told.index(new)


def test_another_process_recalls_the_newest_fact(
    demo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown, found = answers(capsys, monkeypatch)
    assert len(list(read_records(DEMO / "conversation.jsonl"))) >= 40
    for question, fact in (
        ("When is the grant application due?", "26 June"),
        ("Where does the workshop take place?", "Old Mill"),
        ("What is the phone number of the caterer?", "555-0178"),
        ("Who gives the opening talk?", "Okafor"),
        ("How much money is in the budget?", "9,500"),
        ("Is anybody allergic to something?", "peanuts"),
        ("When does the boat trip start?", "three in the afternoon"),
    ):
        assert any(fact in hit["text"] for hit in found[question] if hit["store"] == "notes"), question
        assert question in shown
        assert fact in shown
    assert "2025-05-20" in shown


def test_it_starts_afresh_each_time(
    demo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "ask", lambda _: [])
    for _ in range(2):
        run.main()
        assert "48 of 48 turns" in capsys.readouterr().out
    assert (demo.parent / ".devmem" / "demo").is_dir()
