"""Data files that no memory can be made of are refused with their line, and times are those of the local clock."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from devmem.errors import DataFileError
from devmem.transfer.importing.formats import read_records


def read(path: Path) -> None:
    for _ in read_records(path):
        pass


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"text": "a", "metadata": {"n": %s}}' % ("9" * 5_000), "5,000 digits"),
        ('{"text": "a", "metadata": {"n": NaN}}', "NaN"),
        ('{"text": "a", "metadata": {"n": -Infinity}}', "-Infinity"),
        ('{"text": "%s"}' % ("a" * 16_000_001), "16,000,000 bytes"),
        ("%s" % ("[" * 100_000), "nested too deeply"),
    ],
)
def test_a_line_that_cannot_be_kept_is_named(tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_text('{"text": "first"}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(DataFileError, match=words) as raised:
        read(file)
    assert ":2:" in str(raised.value)


def test_a_small_archive_of_one_endless_line_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt.gz"
    with gzip.open(file, "wb") as packed:
        for _ in range(40):
            packed.write(b"a " * 500_000)
    with pytest.raises(DataFileError, match="split"):
        read(file)
