"""Folders, archives and packed files: what is in them is read, and what only fills memory or disk is refused."""

from __future__ import annotations

import gzip
import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest

from devmem.errors import DataFileError
from devmem.transfer.importing.folders import data_files
from devmem.transfer.importing.formats import open_data

SAMPLES = Path(__file__).parents[2] / "data" / "imports"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@cache
def packed(head: bytes, line: bytes) -> bytes:
    """Return a packed file of 250 million bytes."""
    file = BytesIO()
    with gzip.open(file, "wb", compresslevel=1) as packing:
        packing.write(head)
        for _ in range(250):
            packing.write(line)
    return file.getvalue()


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv", "a.json", "a.html", "a.mbox"])
@pytest.mark.parametrize("line", [b"x" * 999_999 + b"\n", b"x" * 1_000_000], ids=["lines", "one line"])
def test_a_packed_file_that_only_fills_memory_is_refused(tmp_path: Path, name: str, line: bytes) -> None:
    path = tmp_path / f"{name}.gz"
    path.write_bytes(
        packed(b"From a@x.org Wed May  1 08:00:00 2024\nFrom: a@x.org\n\n" if name == "a.mbox" else b"text\n", line)
    )
    with pytest.raises(
        DataFileError, match=r"gz(:\d+)?: .*(unpacks to more than 200 times|200,000,000 bytes|not JSON)"
    ):
        for _ in open_data(path).records:
            pass


def test_an_archive_that_only_fills_the_disk_is_refused(tmp_path: Path, scratch: Path) -> None:
    path = tmp_path / "a.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.txt", "w") as file,
    ):
        for _ in range(250):
            file.write(b"x" * 1_000_000)
    with pytest.raises(DataFileError, match=r"a\.zip: a\.txt in it unpacks to 250,000,000 bytes from"):
        list(data_files(path, scratch))
    assert not list(scratch.rglob("*.txt"))


def test_files_that_hold_no_data_are_counted(tmp_path: Path, scratch: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("a.png", "b.png", "c.pdf", "notes.txt", "inner.zip"):
        (folder / name).write_bytes(b"x")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for file in folder.iterdir():
            archive.write(file, file.name)
    for place in (folder, tmp_path / "a.zip"):
        caplog.clear()
        found = [Path(name).name for _, name in data_files(place, scratch)]
        assert found == ["inner.zip", "notes.txt"], "an archive within is refused by name when it is opened"
        assert "files without records are left out: .png (2), .pdf (1)" in caplog.text
