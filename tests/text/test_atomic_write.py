"""Files that are replaced as a whole."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devmem.text.files import create_private, remove_leftovers, replace_file

WRITER = """
import sys
from pathlib import Path
from devmem.text.files import replace_file

def parts():
    yield b"half"
    print("writing", flush=True)
    sys.stdin.read()
    yield b" and half"

replace_file(Path(sys.argv[1]), parts())
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes.json"


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_a_new_file_is_for_its_owner_only(notes: Path) -> None:
    replace_file(notes, [b"new"])
    assert (notes.read_bytes(), mode(notes)) == (b"new", 0o600)
    other = notes.with_name("other")
    with open(other, "x", opener=create_private):
        assert mode(other) == 0o600


@pytest.mark.usefixtures("open_umask")
def test_a_replaced_file_keeps_its_mode(notes: Path) -> None:
    notes.write_bytes(b"old")
    notes.chmod(0o640)
    replace_file(notes, [b"new"])
    assert (notes.read_bytes(), mode(notes)) == (b"new", 0o640)


def test_a_reader_finds_the_old_content_whole(notes: Path) -> None:
    notes.write_bytes(b"old content")
    with notes.open("rb") as reading:
        assert reading.read(3) == b"old"
        replace_file(notes, [b"new"])
        assert reading.read() == b" content"
    assert notes.read_bytes() == b"new"


def test_a_link_stays_a_link(notes: Path, tmp_path: Path) -> None:
    (tmp_path / "synced").mkdir()
    target = tmp_path / "synced" / "notes.json"
    target.write_bytes(b"old")
    notes.symlink_to(target)
    replace_file(notes, [b"new"])
    assert notes.is_symlink()
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_what_fails_changes_and_leaves_nothing(notes: Path, error: BaseException) -> None:
    notes.write_bytes(b"old")

    def parts() -> Iterator[bytes]:
        yield b"half"
        raise error

    with pytest.raises(type(error)):
        replace_file(notes, parts())
    assert [path.name for path in notes.parent.iterdir()] == ["notes.json"]
    assert notes.read_bytes() == b"old"


def test_leftovers_of_a_killed_writer_are_removed_and_those_of_others_are_not(notes: Path) -> None:
    other = notes.with_name("other.json")
    killed, busy, stranger = (writing(path) for path in (notes, notes, other))
    killed.kill()
    killed.communicate(timeout=30)
    assert remove_leftovers(notes) == 1
    assert remove_leftovers(notes) == 0
    for process in (busy, stranger):
        process.communicate(b"", timeout=30)
        assert process.returncode == 0
    assert notes.read_bytes() == other.read_bytes() == b"half and half"


def test_leftovers_of_a_whole_folder(notes: Path) -> None:
    for path in (notes, notes.with_name("other.json")):
        killed = writing(path)
        killed.kill()
        killed.communicate(timeout=30)
    kept = notes.with_name("download.part")
    kept.write_bytes(b"not ours")
    assert remove_leftovers(notes.parent) == 2
    assert list(notes.parent.iterdir()) == [kept]


def writing(path: Path) -> subprocess.Popen[bytes]:
    """Start a process that stops half-way through replacing a file."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    return process


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
def test_a_pipe_is_written_into_and_stays(tmp_path: Path) -> None:
    """A renamed file would take the place of `/dev/null`, and of `/dev/stdout` behind a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    replace_file(pipe, [b"one ", b"two"])
    assert reader.communicate()[0] == b"one two"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]
