"""Checking a workflow file reports what is wrong with it, and raises nothing."""

from __future__ import annotations

from pathlib import Path

from devmem.config import Rule
from devmem.errors import Level
from devmem.workflow import check_workflow


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
