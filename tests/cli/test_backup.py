"""Backups: a checked copy while the file is in use, and commands on a full disk, which leave no part behind."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import devmem as library

from .conftest import Devmem, one_paragraph


def texts(devmem: Devmem, path: Path) -> set[str]:
    return {item["text"] for item in json.loads(devmem("list", path, "--json").stdout)}


@pytest.fixture
def notes(tmp_path: Path, devmem: Devmem) -> Path:
    path = tmp_path / "notes.db"
    devmem("add", path, "The first note.")
    return path


def test_a_backup_of_a_file_in_use_is_whole(notes: Path, devmem: Devmem, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with library.open(notes) as memory:
        memory.add("Only in the log so far.")
        assert devmem("backup", notes, copy).stdout == f"{copy}: 2 items\n"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert not list(tmp_path.glob("copy.db?*"))
    assert texts(devmem, copy) == {"The first note.", "Only in the log so far."}
    refused = devmem("backup", notes, copy, code=2)
    assert "already exists and was not changed" in one_paragraph(refused)
    nowhere = tmp_path / "none" / "copy.db"
    for command in (("backup", notes, nowhere), ("export", notes, "--output", nowhere)):
        assert f"error: {nowhere}: No such file or directory" in one_paragraph(devmem(*command, code=2))


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("backup", "URL", "copy.db"), "`pg_dump`"),
        (("backup", "URL", "copy.db", "--restore"), "`devmem copy`"),
        (("validate", "URL"), "there is no such file"),
        (("run", "URL", "--input", "x"), "there is no such file"),
    ],
)
def test_the_url_of_a_database_is_no_file(devmem: Devmem, words: tuple[str, ...], advice: str) -> None:
    url = "postgresql://ann:hunter2hunter2@db.test/team"
    refused = devmem(*(url if word == "URL" else word for word in words), code=2)
    assert advice in refused.output
    assert "hunter2" not in refused.output


def test_a_log_of_the_old_file_does_not_damage_what_is_restored(notes: Path, devmem: Devmem, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    devmem("backup", notes, copy)
    with library.open(notes) as memory:
        memory.add("After the backup.")
        log = notes.with_name("notes.db-wal").read_bytes()
    notes.unlink()
    notes.with_name("notes.db-wal").write_bytes(log)
    devmem("backup", notes, copy, "--restore")
    assert texts(devmem, notes) == {"The first note."}
    assert "nothing is wrong" in devmem("doctor", notes).stdout


def test_a_restore_reaches_a_process_that_has_the_file_open(notes: Path, devmem: Devmem, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    devmem("backup", notes, copy)
    assert "--force replaces its items" in one_paragraph(devmem("backup", notes, copy, "--restore", code=2))
    with library.open(notes) as memory:
        memory.add("After the backup.")
        assert memory.search("After the backup")[0].text == "After the backup."
        devmem("backup", notes, copy, "--restore", "--force")
        assert [hit.text for hit in memory.search("After the backup")] == ["The first note."]
        memory.add("After the restore.")
    assert texts(devmem, notes) == {"The first note.", "After the restore."}


def test_a_damaged_backup_is_refused_and_nothing_is_changed(notes: Path, devmem: Devmem, tmp_path: Path) -> None:
    bad = tmp_path / "bad.db"
    devmem("backup", notes, bad)
    content = bytearray(bad.read_bytes())
    content[8192 * 2 : 8192 * 3] = b"\xff" * 8192
    bad.write_bytes(content)
    before = notes.read_bytes()
    assert "is damaged" in one_paragraph(devmem("backup", notes, bad, "--restore", "--force", code=2))
    assert notes.read_bytes() == before
    assert "is damaged" in one_paragraph(devmem("backup", bad, tmp_path / "worse.db", code=2))
    assert not list(tmp_path.glob("worse.db*"))


def test_what_a_killed_backup_left_is_removed_by_the_next_one(notes: Path, devmem: Devmem, tmp_path: Path) -> None:
    left = tmp_path / f"copy.db.{'a' * 32}.part"
    shutil.copy(notes, left)
    other = tmp_path / f"other.db.{'b' * 32}.part"
    shutil.copy(notes, other)
    devmem("backup", notes, tmp_path / "copy.db")
    assert not left.exists()
    assert other.exists()
    assert texts(devmem, tmp_path / "copy.db") == {"The first note."}


def test_a_file_named_like_the_home_of_no_user(devmem: Devmem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    devmem("add", "~no-such-user.db", "The first note.")
    assert texts(devmem, Path("~no-such-user.db")) == {"The first note."}
    assert (tmp_path / "~no-such-user.db").exists()
    error = one_paragraph(devmem("add", "~no-such-user/notes.db", "The first note.", code=2))
    assert "~no-such-user/notes.db: the home folder ~no-such-user is unknown" in error
    assert not (tmp_path / "~no-such-user").exists()


TEXT = "The river runs past the mill. " * 60
NOTES = 200


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB."""
    folder = tmp_path / "full"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def many_notes(tmp_path: Path, devmem: Devmem) -> Path:
    path = tmp_path / "notes.db"
    text = "".join(f"{number}: {TEXT}\n" for number in range(NOTES))
    devmem("add", path, "-", "--lines", "--embedding", "none", stdin=text)
    return path


@pytest.mark.parametrize(("command", "file"), [("backup", "copy.db"), ("export", "notes.json")])
def test_a_copy_that_finds_no_room(full_disk: Path, many_notes: Path, devmem: Devmem, command: str, file: str) -> None:
    out = full_disk / file
    error = one_paragraph(devmem(command, many_notes, *(["-o"] if command == "export" else []), out, code=2))
    assert str(out) in error
    assert str(many_notes) not in error
    assert list(full_disk.iterdir()) == []


def test_a_key_that_finds_no_room(full_disk: Path, many_notes: Path, devmem: Devmem, tmp_path: Path) -> None:
    """The file keeps its key, and the same command changes it once there is room."""
    room = many_notes.stat().st_size // 1024 + 200
    subprocess.run(["mount", "-o", f"remount,size={room}k", str(full_disk)], check=True)
    file = full_disk / "notes.db"
    file.write_bytes(many_notes.read_bytes())
    (key := tmp_path / "key").write_text("ab" * 32, encoding="utf-8")
    error = one_paragraph(devmem("rekey", file, "--new-key-file", key, code=2))
    assert "notes.db" in error
    assert "its key was not changed" in error
    assert [each.name for each in full_disk.iterdir()] == ["notes.db"]
    subprocess.run(["mount", "-o", "remount,size=8m", str(full_disk)], check=True)
    devmem("rekey", file, "--new-key-file", key)
    assert devmem("--key-file", key, "count", file).stdout.strip() == str(NOTES)
