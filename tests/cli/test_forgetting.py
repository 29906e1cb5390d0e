"""`devmem forget` on a whole workflow, and the exports and backups that its receipt names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import devmem as library

from .conftest import Devmem, StartDevmem, one_paragraph


def exports(receipt: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the exports that the receipt of a workflow names."""
    return [export for store in receipt["stores"] for export in store["exports"]]


def test_a_workflow_is_forgotten_from(filled: Path, devmem: Devmem) -> None:
    trial = devmem("forget", filled, "--user", "u1", "--dry-run").stdout
    assert "user u1" in trial
    assert "1 item of 1 stores would be forgotten" in trial
    refused = devmem("forget", filled, "--user", "u1", code=2)
    assert "1 item of" in one_paragraph(refused)
    assert "add --yes" in one_paragraph(refused)
    done = json.loads(devmem("forget", filled, "--user", "u1", "--yes", "--json").stdout)
    assert (done["items"], done["residues"], exports(done)) == (1, [], [])
    assert [part["store"] for part in done["stores"]] == ["notes"]
    assert "no store has an item 'd1'" in one_paragraph(devmem("forget", filled, "--id", "d1", "--yes", code=2))
    assert "--session" in one_paragraph(devmem("forget", filled, "--user", "u1", "--session", "a/b", code=2))


def test_exports_and_backups_are_named(filled: Path, devmem: Devmem, tmp_path: Path) -> None:
    """Those that may hold what is forgotten, by their scope, their ids and their time."""
    every, own = tmp_path / "all.json", tmp_path / "u2.json"
    devmem("export", filled, "notes", "--output", every)
    devmem("export", filled, "notes", "--user", "u2", "--output", own)
    devmem("export", filled, "notes", "--id", "d3")
    devmem("backup", tmp_path / "notes.db", tmp_path / "saved.db")
    done = json.loads(devmem("forget", filled, "--user", "u1", "--yes", "--json").stdout)
    assert [(made["kind"], made["place"], made["items"]) for made in exports(done)] == [
        ("export", str(every), 3),
        ("backup", str(tmp_path / "saved.db"), 3),
    ]
    shown = devmem("forget", filled, "notes", "--user", "u2", "--yes").stdout
    assert f"not reached: {own}: export of" in shown
    devmem("add", tmp_path / "notes.db", "Later than any export.", "--user", "u1")
    assert exports(json.loads(devmem("forget", filled, "--user", "u1", "--yes", "--json").stdout)) == []


def test_an_export_that_is_not_recorded_is_reported(filled: Path, devmem: Devmem, tmp_path: Path) -> None:
    (tmp_path / "json.yaml").write_text(
        "memory: [{name: old, type: simple, config: {memory_path: old.json}}]\n", encoding="utf-8"
    )
    devmem("add", tmp_path / "json.yaml", "One.")
    assert "a forgetting will not name this export" in devmem("export", tmp_path / "json.yaml").stderr


def test_a_printed_export_that_is_cut_off_is_recorded(
    tmp_path: Path, start_devmem: StartDevmem, devmem: Devmem
) -> None:
    path = tmp_path / "long.db"
    with library.open(path, embedding=None) as memory:
        memory.add("x" * 400_000, id="long")  # more than a pipe holds
        memory.add("Petra likes tea.", id="tea")
    process = start_devmem("export", path)
    assert process.stdout is not None
    process.stdout.read(100)
    process.stdout.close()
    assert process.wait(60) == 141
    done = json.loads(devmem("forget", path, "--id", "tea", "--yes", "--json").stdout)
    assert [(made["place"], made["items"]) for made in done["exports"]] == [("", 2)]


def test_an_export_that_fails_is_not_recorded(filled: Path, devmem: Devmem, tmp_path: Path) -> None:
    devmem("export", filled, "notes", "--id", "d9", code=2)
    devmem("export", filled, "notes", "--output", tmp_path / "nowhere" / "notes.json", code=2)
    assert exports(json.loads(devmem("forget", filled, "--user", "u1", "--yes", "--json").stdout)) == []


def test_a_store_that_is_not_forgotten_from_shows_in_the_exit_code(filled: Path, devmem: Devmem) -> None:
    """The receipt does not report that its file holds nothing, either: nobody could read it."""
    damaged = filled.parent / "log.db"
    damaged.write_bytes(b"no database at all, but long enough to look at" * 99)
    text = filled.read_text(encoding="utf-8")
    log = "memory:\n  - {name: log, type: simple, config: {memory_path: log.db}}\n"
    filled.write_text(text.replace("memory:\n", log, 1), encoding="utf-8")
    for trial in (["--dry-run"], ["--yes"]):
        done = json.loads(devmem("forget", filled, "--user", "u1", "--json", *trial, code=1).stdout)
        assert [left["place"] for left in done["residues"]] == ["log"]
        assert str(damaged) not in done["reached"]
    assert "not reached: log: it cannot be used" in devmem("forget", filled, "--user", "u2", "--yes", code=1).stdout


def test_a_session_without_files_is_refused(filled: Path, devmem: Devmem) -> None:
    refused = one_paragraph(devmem("forget", filled, "--user", "u1", "--yes", "--session", "tpyo", code=2))
    assert "no files of a session 'tpyo'; the sessions are: default" in refused
    assert not (filled.parent / ".devmem" / "tpyo").exists()
    assert json.loads(devmem("forget", filled, "--user", "u1", "--yes", "--session", "default", "--json").stdout)[
        "items"
    ]


def test_tombstones_are_listed_and_removed(devmem: Devmem, tmp_path: Path) -> None:
    file, saved = tmp_path / "held.db", tmp_path / "saved.db"
    devmem("add", file, "Her door code is 4711-Zeta.", "--user", "ann")
    devmem("add", file, "The launch is on May 5th.", "--user", "ann")
    devmem("backup", file, saved)
    done = devmem("forget", file, "--user", "ann", "--matching", "door code", "--tombstone", "--yes").stdout
    assert "kept out from now on: 1 text;" in done
    copied = devmem("copy", saved, file)
    assert "1 skipped" in copied.stdout
    assert "1 item(s) were not copied, as tombstones keep them out" in copied.stderr
    restored = devmem("backup", file, saved, "--restore", "--force")
    assert f"{file}: 1 item" in restored.stdout
    assert "1 item of the backup had been erased" in restored.stderr
    (listed,) = json.loads(devmem("list", file, "--tombstones", "--json").stdout)
    assert (listed["texts"], listed["sentences"]) == (1, 1)
    assert listed["id"][:8] in devmem("list", file, "--tombstones").stdout
    assert "cannot be combined" in one_paragraph(devmem("forget", file, "--lift", "a", "--user", "ann", code=2))
    assert "no erasure 'zzzz' is recorded" in one_paragraph(devmem("forget", file, "--lift", "zzzz", code=2))
    assert "1 text may be stored again" in devmem("forget", file, "--lift", listed["id"][:8]).stdout
    assert devmem("list", file, "--tombstones", "--json").stdout.strip() == "[]"
    assert "1 stored" in devmem("copy", saved, file).stdout
    devmem("forget", file, "--user", "ann", "--tombstone", "--yes")
    assert "2 texts may be stored again" in devmem("forget", file, "--lift", "all").stdout


def test_the_items_of_a_trace_are_forgotten(tmp_path: Path, devmem: Devmem) -> None:
    data, place = tmp_path / "a.jsonl", tmp_path / "notes.db"
    lines = [
        {"content_summary": f"Note {at}.", "id": f"n{at}", "scope": {"trace": f"trace-{at % 2}"}} for at in range(4)
    ]
    data.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    devmem("import", place, data)
    done = json.loads(devmem("forget", place, "--trace", "trace-1", "--yes", "--json").stdout)
    assert done["items"] == 2
    assert sorted(item["id"] for item in json.loads(devmem("list", place, "--json").stdout)) == ["n0", "n2"]
    assert "--trace is empty" in devmem("forget", place, "--trace", "", "--yes", code=2).stderr


def test_what_is_shown_is_counted(tmp_path: Path, devmem: Devmem) -> None:
    place = tmp_path / "notes.db"
    for user in ((), ("--user", "ann"), ("--user", "bob")):
        devmem("add", place, "Tea at four.", *user)
    for user, expected in (((), 3), (("--user", "ann"), 1)):
        assert len(json.loads(devmem("list", place, *user, "--json").stdout)) == expected
        assert devmem("count", place, *user).stdout.strip() == str(expected)
