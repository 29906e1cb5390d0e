"""The plan of a workflow (who reads and writes what, what leaves the machine), and the check of its file."""

from __future__ import annotations

from pathlib import Path

import pytest

import devmem
from devmem.config import Rule
from devmem.errors import Level
from devmem.workflow import check_workflow

TEAM = (Path(__file__).parents[1] / "data/workflows/plan.yaml").read_text(encoding="utf-8")


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    file = tmp_path / "team.yaml"
    file.write_text(TEAM)
    return file


def test_who_reads_and_writes_what_at_which_stage_and_within_which_limits(team: Path) -> None:
    found = devmem.plan(team)
    seen = [(one.agent, one.store, one.reads_at, one.writes_at) for one in found.accesses]
    assert seen == [
        ("writer", "board", ("pre",), ("finished",)),
        # There is no stage `plan` without a prompt for it.
        ("writer", "notes", ("critique",), ("finished",)),
        ("editor", "board", ("pre", "gen"), ()),
        ("lost", "board", ("pre", "gen"), ()),
    ]
    board, notes = found.accesses[:2]
    assert (board.min_trust, board.token_budget, board.top_k) == (0.5, 1000, 3)
    assert (notes.where, notes.ttl) == ({"metadata.topic": "launch"}, 30 * 86_400)
    assert [(one.name, one.readers, one.writers) for one in found.stores] == [
        ("board", ("writer", "editor", "lost"), ("writer",)),
        ("notes", ("writer",), ("writer",)),
        ("attic", (), ()),
    ]
    assert found.not_run == ("lost",)


def test_which_data_goes_where_without_the_passwords(team: Path) -> None:
    found = {place.address: place for place in devmem.plan(team).destinations}
    assert {address: place.leaves for address, place in found.items()} == {
        "https://api.openai.com/v1": True,
        "http://127.0.0.1:8000/v1": False,
        "postgresql://***@db.example.com/notes": True,
    }
    assert found["https://api.openai.com/v1"].data == (
        "roles and inputs of writer",
        "recalled items of board, notes",
        "texts (for `embedding`) of notes",
        "texts (for `key_llm`) of notes",
    )
    assert found["postgresql://***@db.example.com/notes"].data == ("items and queries of notes",)


def test_what_is_probably_not_meant_is_what_check_finds(team: Path) -> None:
    assert [one.rule for one in devmem.plan(team).findings] == ["unused-store"]
    team.write_text(TEAM.replace(", min_trust: 0.5", ""))
    by_all, unused = devmem.plan(team).findings
    assert by_all.rule == "read-by-all"
    assert "all 3 agents read the store 'board', which writer writes" in by_all.message
    assert unused.rule == "unused-store"


def test_a_summary_that_no_run_makes_asks_no_model(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(
        "memory: [{name: log, type: conversation, config: {summary: {llm: {model: m}}}}]\n"
        "conversation: {store: log}\nnodes: [{id: a, type: agent, config: {memories: [log]}}]\n"
    )
    found = devmem.plan(file)
    assert found.destinations == ()
    assert found.stores[0].writers == ("a", "conversation")


def test_the_texts_that_a_guard_has_a_model_read_are_sent_to_it(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    checks = "[{type: orders}, {type: llm, model: m, base_url: 'http://guard.example.com'}]"
    file.write_text(
        f"memory: [{{name: notes, type: simple, config: {{guard: {{checks: {checks}}}}}}}]\n"
        "nodes: [{id: a, type: agent, config: {memories: [notes]}}]\n"
    )
    (place,) = devmem.plan(file).destinations
    assert (place.address, place.data) == ("http://guard.example.com", ("texts (for `guard.checks[1]`) of notes",))


def test_a_workflow_that_can_be_used(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("nodes: [{id: a, type: agent, config: {memorys: []}}]")
    check = check_workflow(file, environ={})
    assert check.workflow is not None
    assert [(one.level, one.rule, one.line) for one in check.findings] == [(Level.WARNING, Rule.UNKNOWN_KEY, 1)]
    assert (check.count(Level.ERROR), check.count(Level.WARNING)) == (0, 1)


def test_one_that_cannot_be_used_and_one_that_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("memory: [{name: a, type: simpel}]")
    for path, rule in ((file, Rule.UNKNOWN_NAME), (tmp_path / "none.yaml", Rule.INVALID_FILE)):
        check = check_workflow(path, environ={})
        assert (check.file, check.workflow) == (str(path), None)
        assert [(one.level, one.rule) for one in check.findings] == [(Level.ERROR, rule)]
