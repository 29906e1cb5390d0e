"""`devmem doctor` over a workflow: every kind of file that its stores keep, sound and damaged."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from devmem import MemoryContentSnapshot, MemoryItem, MemoryWritePayload, load_workflow
from devmem.messages import AttachmentRef, MessageBlock
from devmem.recording import pending_file
from devmem.storage import Outbox, SqliteCollection
from devmem.stores import SnapshotBlock
from devmem.workflow import UnsavedWrites, make_store

from .conftest import Devmem, one_paragraph

WORKFLOW = """\
memory:
  - {name: notes, type: simple, config: {memory_path: notes.db}}
  - {name: devall, type: simple, config: {memory_path: devall.json}}
  - {name: docs, type: file, config: {memory_path: docs.db, file_sources: [{path: texts}]}}
  - {name: chats, type: brain, config: {memory_path: chats.db}}
  - {name: role, type: role_zero, config: {memory_path: role.db}}
  - {name: nowhere, type: simple}
nodes: []
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a workflow whose stores were written to."""
    tmp_path = tmp_path_factory.mktemp("written")
    path = tmp_path / "team.yaml"
    path.write_text(WORKFLOW, encoding="utf-8")
    texts = tmp_path / "texts"
    texts.mkdir()
    for name in ("one", "two"):
        (texts / f"{name}.txt").write_text(f"The text of {name} is about lighthouses.", encoding="utf-8")
    workflow = load_workflow(path)
    for name in ("notes", "devall", "docs", "chats", "role"):
        store = make_store(workflow, name)
        store.load()
        if name != "docs":
            store.update(payload("What is said in words."))
        store.close()
    return tmp_path


@pytest.fixture
def team(written: Path, tmp_path: Path) -> Path:
    """A copy of that workflow's folder, to be damaged."""
    return Path(shutil.copytree(written, tmp_path / "copy")) / "team.yaml"


def payload(text: str) -> MemoryWritePayload:
    return MemoryWritePayload(agent_role="writer", inputs_text=text, output_snapshot=MemoryContentSnapshot(text=text))


def examined(devmem: Devmem, path: Path, code: int = 0) -> dict[str, dict[str, Any]]:
    """Return the reports by the names of their files."""
    reports = json.loads(devmem("doctor", path, "--json", code=code).stdout)
    return {Path(report["file"]).name: report for report in reports}


def messages(report: dict[str, Any], level: str) -> str:
    return "\n".join(each["message"] for each in report["findings"] if each["level"] == level)


def change(path: Path, statement: str, *values: object) -> None:
    """Change a file behind devmem's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement, values).rowcount != 0


def test_every_file_of_a_sound_workflow_is_examined_and_left_as_it_is(team: Path, devmem: Devmem) -> None:
    files = [team.with_name(name) for name in ("notes.db", "devall.json", "docs.db", "chats.db")]
    before = [file.read_bytes() for file in files]
    reports = examined(devmem, team)
    kinds = {name: (report["store"], report["kind"]) for name, report in reports.items()}
    assert kinds == {
        "notes.db": ("notes", "collection"),
        "devall.json": ("devall", "JSON collection"),
        "docs.db": ("docs", "collection"),
        "chats.db": ("chats", "collection"),
        "role.db": ("role", "collection"),
    }
    assert all(report["sound"] and not report["findings"] for report in reports.values())
    assert (reports["docs.db"]["files"], reports["chats.db"]["conversations"]) == (2, 1)
    assert "nothing is wrong" in devmem("doctor", team).stdout
    assert [file.read_bytes() for file in files] == before


def test_each_kind_of_file_is_recognised_by_itself(team: Path, devmem: Devmem) -> None:
    for name, kind in (("devall.json", "JSON collection"), ("docs.db", "collection")):
        assert examined(devmem, team.with_name(name))[name]["kind"] == kind
    refused = devmem("doctor", team.with_name("devall.json"), "--fix", code=2)
    assert "--fix needs the SQLite file of a collection or the URL of a store" in one_paragraph(refused)


def test_damage_is_an_error_of_its_file_alone(team: Path, devmem: Devmem) -> None:
    (team.parent / "devall.json").write_text('[{"id": 3', encoding="utf-8")
    reports = examined(devmem, team, code=1)
    assert "is not JSON" in messages(reports["devall.json"], "error")
    assert [name for name, report in reports.items() if not report["sound"]] == ["devall.json"]
    assert messages(reports["devall.json"], "error").splitlines()[0] in devmem("doctor", team, code=1).stderr


def test_unfinished_work_is_a_warning(team: Path, devmem: Devmem) -> None:
    added = "INSERT INTO states (kind, name, value) VALUES (?, ?, x'')"
    change(team.with_name("chats.db"), added, "conversation that waits for Redis", "ann:")
    unsaved = UnsavedWrites(team.parent / ".devmem" / "default")
    with pytest.raises(OSError, match="no disk"):
        unsaved.write("notes", payload("lost?"), _fails)
    assert [file.name for file in unsaved.close(["notes"])] == ["state.db"]
    reports = examined(devmem, team)
    assert "1 states wait for Redis" in messages(reports["chats.db"], "warning")
    assert "1 of the kind 'write' wait for notes" in messages(reports["state.db"], "warning")
    assert reports["state.db"]["store"] is None


def _fails(_payload: MemoryWritePayload) -> Any:
    raise OSError("no disk")


def test_damaged_and_refused_work_that_waits(team: Path, devmem: Devmem) -> None:
    path = pending_file(team.with_name("notes.db"))
    with closing(Outbox(path, dump=str, load=str, place="role")) as outbox:
        outbox.put({name: name for name in "abc"})
        outbox.refuse("b", "too long")
    for report in (
        examined(devmem, path, code=1)[path.name],
        json.loads(devmem("doctor", team.with_name("notes.db"), "--json", code=1).stdout)[1],
    ):
        assert "'b' was refused permanently by role: too long" in messages(report, "error")
        assert (report["waiting"], report["refused"]) == (2, 1)
    path.write_bytes(path.read_bytes()[:5000] + bytes(3000))
    assert examined(devmem, path, code=1)[path.name]["sound"] is False


@pytest.mark.parametrize(
    ("change", "said"),
    [("DELETE FROM attachments", "is missing"), ("UPDATE attachments SET content = 'x'", "has another content")],
)
def test_attachments_are_compared_by_their_hash(tmp_path: Path, devmem: Devmem, change: str, said: str) -> None:
    uri = "data:image/png;base64," + "AAAA" * 40_000
    block = SnapshotBlock(block=MessageBlock(type="image", attachment=AttachmentRef(attachment_id="x", data_uri=uri)))
    path = tmp_path / "pictures.db"
    with closing(SqliteCollection(path)) as collection:
        item = MemoryItem(id="p", content_summary="p", output_snapshot=MemoryContentSnapshot(blocks=(block,)))
        collection.add([item])
    assert examined(devmem, path)["pictures.db"]["sound"]
    devmem("doctor", path, "--salvage", tmp_path / "saved.json")
    assert uri in (tmp_path / "saved.json").read_text(encoding="utf-8")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(change.replace("'x'", "CAST('x' AS BLOB)"))
    assert messages(examined(devmem, path, code=1)["pictures.db"], "error").endswith(f": it {said}")


def test_a_store_that_cannot_be_made_leaves_the_others_to_be_examined(team: Path, devmem: Devmem) -> None:
    text = team.read_text(encoding="utf-8").replace("memory_path: role.db", "memory_path: '${NO_SUCH_VALUE}'")
    team.write_text(text, encoding="utf-8")
    reports = examined(devmem, team, code=1)
    assert "it cannot be examined" in messages(reports["role"], "error")
    assert reports["notes.db"]["sound"]


def test_the_file_of_decided_erasures_is_examined(team: Path, devmem: Devmem) -> None:
    state = team.parent / ".devmem" / "state.db"
    with closing(Outbox(state, dump=str, load=str, kind="erase")) as decided:
        decided.put({"ab": "what a killed process began"})
    waiting = examined(devmem, team, code=0)["state.db"]
    assert (waiting["kind"], waiting["waiting"]) == ("pending work", 1)
    state.write_bytes(b"SQLite format 3\0" + bytes(200))
    assert "it cannot be read" in messages(examined(devmem, team, code=1)["state.db"], "error")
