"""`devmem web --export`: a run as a page to attach to a report."""

from __future__ import annotations

from pathlib import Path

import devmem
from devmem import Scope, WorkflowRunner, load_workflow, open_stores
from tests.command_line import run_devmem
from tests.web.conftest import ask, remember


def export(team: Path, *arguments: str, code: int = 0) -> str:
    folder = team.parent / "report"
    result = run_devmem("web", team, "--export", folder, *arguments, code=code)
    return (folder / "index.html").read_text("utf-8") if code == 0 else result.output


def test_a_run_is_written_without_a_script_or_a_server(team: Path) -> None:
    remember(team, "The launch is on June 2nd. <script>alert(1)</script>")
    ask(team, "When is the launch?")
    page = export(team)
    assert "] The launch is on June 2nd. &lt;script&gt;" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert (team.parent / "report" / "style.css").exists()


def test_names_are_masked_in_texts_too(team: Path) -> None:
    with devmem.open(f"{team}#notes") as memory:
        memory.add("ann told the helper about annual plans.", user="ann")
    workflow = load_workflow(team)
    scope = Scope(user="ann")
    with open_stores(workflow) as stores, WorkflowRunner(workflow, stores, scope=scope) as runner:
        runner.run("What did ann tell?")
    page = export(team, "--mask")
    assert "user 1 told the agent 1 about annual plans." in page
    assert "What did user 1 tell?" in page


def test_a_run_that_is_not_there_is_named(team: Path) -> None:
    assert "record_recalls" in export(team, code=2)
    remember(team, "The launch is on June 2nd.")
    ask(team, "When is the launch?")
    assert "no run 'zz'" in export(team, "--run", "zz", code=2)
    assert "nothing is recorded" in export(team, "--user", "ann", code=2)
