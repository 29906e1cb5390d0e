"""The command as a process: pipes, signals, encodings, strangers' packages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Devmem, StartDevmem


def test_a_second_process_finds_what_the_first_stored(workflow: Path, start_devmem: StartDevmem) -> None:
    told = start_devmem("run", workflow, "--input", "The launch moved to the third of May.")
    assert told.wait() == 0
    asked = start_devmem("run", workflow, "--node", "analyst", "--input", "When is the launch?", "--json")
    out, err = asked.communicate()
    assert (asked.returncode, err) == (0, "")
    assert "The launch moved to the third of May." in json.loads(out)["answer"]


def test_ctrl_c_ends_quietly(workflow: Path, start_devmem: StartDevmem) -> None:
    process = start_devmem("run", workflow, "--node", "scribe", "--input-file", "-", "--json", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("The launch moved to the third of May.\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["nodes"][0]["writes"][0]["status"] == "stored"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err == "interrupted\n"


def test_a_reader_that_leaves_is_no_error(workflow: Path, devmem: Devmem, start_devmem: StartDevmem) -> None:
    data = workflow.parent / "data.jsonl"
    lines = (json.dumps({"text": f"Turn {n}. " + "and so on " * 50}) for n in range(1000))
    data.write_text("\n".join(lines), encoding="utf-8")
    devmem("import", workflow, "notes", data)
    process = start_devmem("list", workflow, "notes", "--limit", "1000")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("date")
    process.stdout.close()
    assert process.wait() == 141
    assert process.stderr is not None
    assert process.stderr.read() == ""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "gbk"])
def test_no_encoding_makes_it_fail(
    filled: Path, start_devmem: StartDevmem, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    process = start_devmem("search", filled, "notes", "发布会 deadline")
    process.communicate()
    assert process.returncode == 0


def test_bytes_that_are_not_text_can_be_asked_for(filled: Path) -> None:
    command = [sys.executable, "-m", "devmem", "search", str(filled), "notes", "--all-users"]
    done = subprocess.run(
        [*(os.fsencode(part) for part in command), b"deadline \xff"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"12 June" in done.stdout


@pytest.mark.parametrize("command", ["search", "add"])
def test_the_help_of_a_command_loads_neither_stores_nor_workflows(command: str) -> None:
    asked = [sys.executable, "-X", "importtime", "-m", "devmem", command, "--help"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "200"})
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    ours = {name for name in loaded if name.split(".")[0] in ("devmem", "devmem_stores")}
    assert done.stdout.startswith(f"Usage: devmem {command}")
    assert "devmem.cli.targets" in ours
    assert not [name for name in ours if name.startswith(("devmem.stores", "devmem.storage", "devmem.workflow"))]
    assert not loaded & {"numpy", "yaml"}
    assert len(ours) < 40


def test_a_type_that_cannot_be_loaded_is_a_row_that_says_why(
    tmp_path: Path, start_devmem: StartDevmem, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "strange-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n", encoding="utf-8")
    (folder / "entry_points.txt").write_text("[devmem.stores]\nodd = strange_module:Store\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    process = start_devmem("stores")
    out, _ = process.communicate()
    (row,) = (line for line in out.splitlines() if line.startswith("odd "))
    assert "strange 1.0" in row
    assert "cannot be used: store type 'odd' of strange 1.0 cannot be loaded: ModuleNotFoundError" in row
    assert process.returncode == 1
    assert any(line.startswith("simple ") for line in out.splitlines())


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that closes streams")
@pytest.mark.parametrize(
    ("command", "code", "err"),
    [
        ("add notes.db - <&-", 2, "there is nothing to remember"),
        ("run workflow.yaml <&-", 2, "nothing to run"),
        ("stores workflow.yaml >&-", 0, ""),
        ("stores workflow.yaml <&- >&- 2>&-", 0, ""),
    ],
)
def test_streams_that_are_closed_are_empty(workflow: Path, command: str, code: int, err: str) -> None:
    line = command.replace("workflow.yaml", workflow.name)
    shell = ["sh", "-c", f'exec "$0" -m devmem {line}', sys.executable]
    done = subprocess.run(shell, cwd=workflow.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, err in done.stderr, "internal error" in done.stderr) == (code, True, False)
