"""Commands on a full disk name the file for which there was no room, and leave no part of it behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Devmem, one_paragraph

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
def notes(tmp_path: Path, devmem: Devmem) -> Path:
    path = tmp_path / "notes.db"
    text = "".join(f"{number}: {TEXT}\n" for number in range(NOTES))
    devmem("add", path, "-", "--lines", "--embedding", "none", stdin=text)
    return path


@pytest.mark.parametrize(("command", "file"), [("backup", "copy.db"), ("export", "notes.json")])
def test_a_copy_that_finds_no_room(full_disk: Path, notes: Path, devmem: Devmem, command: str, file: str) -> None:
    out = full_disk / file
    error = one_paragraph(devmem(command, notes, *(["-o"] if command == "export" else []), out, code=2))
    assert str(out) in error
    assert str(notes) not in error
    assert list(full_disk.iterdir()) == []


def test_a_key_that_finds_no_room(full_disk: Path, notes: Path, devmem: Devmem, tmp_path: Path) -> None:
    """The file keeps its key, and the same command changes it once there is room."""
    room = notes.stat().st_size // 1024 + 200
    subprocess.run(["mount", "-o", f"remount,size={room}k", str(full_disk)], check=True)
    file = full_disk / "notes.db"
    file.write_bytes(notes.read_bytes())
    (key := tmp_path / "key").write_text("ab" * 32, encoding="utf-8")
    error = one_paragraph(devmem("rekey", file, "--new-key-file", key, code=2))
    assert "notes.db" in error
    assert "its key was not changed" in error
    assert [each.name for each in full_disk.iterdir()] == ["notes.db"]
    subprocess.run(["mount", "-o", "remount,size=8m", str(full_disk)], check=True)
    devmem("rekey", file, "--new-key-file", key)
    assert devmem("--key-file", key, "count", file).stdout.strip() == str(NOTES)
