"""`--json` of commands whose answer is a sentence for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import COMMANDS, Devmem, options_of

WITHOUT = {"init", "export", "mcp", "web"}
"""These print a document of another form, ask, or go on."""


def test_every_other_command_has_the_option() -> None:
    assert {name for name in COMMANDS if "--json" not in options_of(name)} <= WITHOUT


@pytest.fixture
def notes(devmem: Devmem, tmp_path: Path) -> Path:
    path = tmp_path / "notes.db"
    devmem("add", path, "The venue is booked.", "--user", "ann")
    return path


def printed(devmem: Devmem, *arguments: object) -> Any:
    return json.loads(devmem(*arguments, "--json").stdout)


def test_a_backup_and_its_restoring(devmem: Devmem, notes: Path, tmp_path: Path) -> None:
    copy, back = tmp_path / "copy.db", tmp_path / "back.db"
    assert printed(devmem, "backup", notes, copy) == {"file": str(copy), "items": 1}
    assert printed(devmem, "backup", back, copy, "--restore") == {"file": str(back), "items": 1, "kept_out": 0}


def test_an_import_and_its_dry_run(devmem: Devmem, notes: Path, tmp_path: Path) -> None:
    data = tmp_path / "more.jsonl"
    data.write_text('{"text": "The band is not booked."}\n')
    dry = printed(devmem, "import", notes, data, "--dry-run")
    sample = "The band is not booked."
    assert dry == {"files": [{"file": str(data), "format": "jsonl", "records": 1, "samples": [sample]}]}
    done = printed(devmem, "import", notes, data)
    assert done["items"] == 2
    assert done["files"] == [{"file": str(data), "format": "jsonl", "counts": {"stored": 1}}]


def test_an_indexing(devmem: Devmem, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Launch\n\nIt is on June 2nd.\n")
    team = tmp_path / "team.yaml"
    team.write_text("memory: [{name: docs, type: file, config: {index_path: i.db, file_sources: [{path: docs}]}}]\n")
    (report,) = printed(devmem, "reindex", team)
    assert (report["store"], report["new"], report["files"], report["problems"]) == ("docs", ["docs/a.md"], 1, {})
    (plan,) = printed(devmem, "reindex", team, "--dry-run")
    assert (plan["new"], plan["unchanged"]) == ([], 1)


def test_every_user_may_be_asked_for_where_every_user_is_shown(devmem: Devmem, notes: Path) -> None:
    assert printed(devmem, "list", notes, "--all-users") == printed(devmem, "list", notes)
