"""Data files that no memory can be made of are refused with their line, and times are those of the local clock."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from devmem.errors import DataFileError
from devmem.transfer.importing import read_records


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


def test_times_without_a_zone_are_of_the_local_clock() -> None:
    program = (
        "from datetime import datetime, UTC\n"
        "from devmem.model.times import parse_time\n"
        "for text in ('2026-06-02 21:05', '2.6.2026 21:05', '2 June 2026 21:05', '2026-06-02T21:05Z'):\n"
        "    print(datetime.fromtimestamp(parse_time(text), UTC).isoformat())\n"
    )
    environment = {**os.environ, "TZ": "Pacific/Auckland"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["2026-06-02T09:05:00+00:00"] * 3 + ["2026-06-02T21:05:00+00:00"]


def test_a_large_chat_that_is_one_json_object_is_read_in_bounded_memory(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    file = tmp_path / "result.json"
    with file.open("w", encoding="utf-8") as written:
        written.write('{"chats": {"list": [')
        for chat in range(3):
            written.write(
                f'{", " if chat else ""}{{"name": "chat {chat}", "type": "private", "id": {chat}, "messages": ['
            )
            for at in range(20_000):
                entities = [{"type": "plain", "text": f"word {at} {n}"} for n in range(8)]
                message = {
                    "id": at,
                    "type": "message",
                    "date_unixtime": str(1_700_000_000 + at),
                    "from": "Ann",
                    "text": entities,
                }
                written.write(f"{', ' if at else ''}{json.dumps(message)}")
            written.write("]}")
        written.write("]}}")
    program = (
        "import resource, sys\n"
        "from devmem.transfer.importing import read_records\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "seen = [(record.scope.conversation, record.event_time) for record in read_records(sys.argv[1])]\n"
        "print(len(seen), len(set(seen)), seen[-1], peak() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, file], capture_output=True, text=True, check=True)
    count, distinct, *last, grown = done.stdout.split()
    assert (count, distinct, last) == ("60000", "60000", ["('chat", "2',", "1700019999.0)"])
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(grown) * unit < file.stat().st_size
