"""`devmem export` and `devmem log --format`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Devmem, StartDevmem, one_paragraph


def shown(devmem: Devmem, workflow: Path, store: str = "notes") -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(devmem("list", workflow, store, "-n", "1000", "--json").stdout)
    return items


@pytest.fixture
def target(filled: Path) -> Path:
    """The same workflow in another folder, where its stores are empty."""
    other = filled.parent / "elsewhere" / filled.name
    other.parent.mkdir()
    other.write_text(filled.read_text(encoding="utf-8"), encoding="utf-8")
    return other


def test_an_export_is_imported_without_loss(filled: Path, target: Path, devmem: Devmem, tmp_path: Path) -> None:
    devmem("run", filled, "--input", "The launch moved to the third of May.")
    for store in ("notes", "board"):
        file = tmp_path / f"{store}.json"
        assert f"written to {file}" in devmem("export", filled, store, "--output", file).stderr
        assert "duplicate" not in devmem("import", target, store, file).stdout
        assert shown(devmem, target, store) == shown(devmem, filled, store) != []
        assert "stored" not in devmem("import", target, store, file).stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--limit", "2"], ["d2", "d3"]),
        (["--id", "d3", "--id", "d1"], ["d3", "d1"]),
        (["--user", "u1"], ["d1"]),
    ],
)
def test_a_part_can_be_exported(filled: Path, devmem: Devmem, options: list[str], ids: list[str]) -> None:
    document = json.loads(devmem("export", filled, "notes", *options).stdout)
    assert [item["id"] for item in document["items"]] == ids
    assert document["count"] == len(ids)


def test_markdown_by_the_name_of_the_file(filled: Path, devmem: Devmem, tmp_path: Path) -> None:
    devmem("export", filled, "notes", "-o", tmp_path / "notes.md")
    page = (tmp_path / "notes.md").read_text(encoding="utf-8")
    assert page.startswith("# Memory notes\n")
    assert "发布会改到五月三日下午两点。" in page
    assert devmem("export", filled, "notes", "--format", "markdown").stdout.splitlines()[3:] == page.splitlines()[3:]


_MORE = [pytest.param(encoding, marks=pytest.mark.kit) for encoding in ("latin-1", "utf-8")]


@pytest.mark.parametrize("encoding", ["ascii", "gbk", *_MORE])
def test_what_is_printed_is_json_in_any_encoding(
    filled: Path, devmem: Devmem, start_devmem: StartDevmem, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    data = filled.parent / "odd.jsonl"
    data.write_text(json.dumps({"id": "d4", "text": "é \x1b]0;x\x07 \x9b 😀 李"}) + "\n", encoding="utf-8")
    devmem("import", filled, "notes", data)
    process = start_devmem("export", filled, "notes", "--id", "d4")
    out, _ = process.communicate()
    assert process.returncode == 0
    assert "\x9b" not in out
    assert json.loads(out)["items"][0]["content_summary"] == "é \x1b]0;x\x07 \x9b 😀 李"


def test_a_failed_export_leaves_the_older_file(filled: Path, devmem: Devmem, tmp_path: Path) -> None:
    file = tmp_path / "notes.json"
    devmem("export", filled, "notes", "-o", file)
    before = file.read_bytes()
    assert "has no item 'd9'" in one_paragraph(devmem("export", filled, "notes", "--id", "d9", "-o", file, code=2))
    assert "does not exist yet; nothing was written" in one_paragraph(
        devmem("export", filled, "board", "-o", file, code=2)
    )
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("notes.json")] == ["notes.json"]


def test_a_large_attachment_is_exported(filled: Path, devmem: Devmem) -> None:
    data = filled.parent / "picture.json"
    ref = {"attachment_id": "p", "mime_type": "image/png", "data_uri": "data:image/png;base64," + "QUJD" * 30_000}
    block = {"role": "user", "block": {"type": "image", "attachment": ref}}
    item = {"id": "p1", "content_summary": "a picture", "input_snapshot": {"text": "", "blocks": [block]}}
    data.write_text(json.dumps([item]), encoding="utf-8")
    devmem("import", filled, "notes", data)
    exported = json.loads(devmem("export", filled, "notes", "--id", "p1").stdout)
    (kept,) = exported["items"][0]["input_snapshot"]["blocks"]
    assert kept["block"]["attachment"]["data_uri"] == ref["data_uri"]


def test_the_flow_of_a_workflow(workflow: Path, devmem: Devmem, tmp_path: Path) -> None:
    devmem("run", workflow, "--input", "The launch moved to the third of May.")
    assert 'n0["user"]' in devmem("log", workflow, "notes", "--format", "mermaid").stdout
    assert "sequenceDiagram" in devmem("log", workflow, "notes", "--format", "sequence").stdout
    devmem("log", workflow, "notes", "-o", tmp_path / "flow.dot")
    assert (tmp_path / "flow.dot").read_text(encoding="utf-8").startswith("digraph flow {")
    (first, *_) = json.loads(devmem("log", workflow, "notes", "--format", "dot", "--json").stdout)
    assert (first["sender"], first["receiver"]) == ("user", "scribe")
    assert first["text"] == "The launch moved to the third of May."


def test_what_cannot_be_drawn_is_said(filled: Path, devmem: Devmem) -> None:
    assert "add --output FILE.png" in one_paragraph(devmem("log", filled, "notes", "--format", "png", code=2))
    assert "nothing was drawn" in one_paragraph(
        devmem("log", filled, "notes", "--format", "dot", "--user", "nobody", code=2)
    )
    assert devmem("log", filled, "notes", "--format", "dot", "--user", "nobody", "--json").stdout == "[]\n"


@pytest.mark.parametrize("command", ["export", "log"])
def test_no_file_of_the_memory_is_overwritten(filled: Path, devmem: Devmem, tmp_path: Path, command: str) -> None:
    devmem("add", tmp_path / "other.db", "Another memory.")
    database = tmp_path / "notes.db"
    (tmp_path / "linked.json").symlink_to(database)
    kept = {file: file.read_bytes() for file in (database, filled, tmp_path / "other.db")}
    for output in (*kept, tmp_path / "linked.json", tmp_path / "notes.db-wal"):
        refused = one_paragraph(devmem(command, filled, "notes", "--output", output, code=2))
        assert "belongs to the memory itself and was not changed" in refused or "is a database" in refused
    assert "belongs to the memory" in one_paragraph(devmem(command, database, "--output", database, code=2))
    assert {file: file.read_bytes() for file in kept} == kept
