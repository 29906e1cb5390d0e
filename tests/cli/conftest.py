"""Workflows to run, and the command line to run them with."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol

import pytest
import typer
from typer.testing import Result

from tests.command_line import app, run_devmem

_GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = _GROUP.commands
"""Every subcommand by name; `loaded` is the command itself."""


def options_of(name: str) -> set[str]:
    """Return the options of a command."""
    return {option for param in COMMANDS[name].loaded.params for option in param.opts} - {"--help"}


WORKFLOW = """\
memory:
  - name: notes
    type: simple
    config: {memory_path: notes.db}
  - name: board
    type: blackboard
  - name: passing
    type: simple
nodes:
  - id: scribe
    type: agent
    config:
      memories:
        - {name: notes}
        - {name: board, read: false}
  - id: someone
    type: human
  - id: analyst
    type: agent
    config:
      memories:
        - {name: notes, write: false, top_k: 5}
edges:
  - {from: scribe, to: someone}
  - {from: someone, to: analyst}
"""


class Devmem(Protocol):
    """Runs a command in this process and compares its exit code."""

    def __call__(self, *arguments: object, code: int = 0, stdin: str | bytes | None = None) -> Result: ...


class StartDevmem(Protocol):
    """Starts a command as a process of its own."""

    def __call__(self, *arguments: object, stdin: int | IO[str] | None = None) -> subprocess.Popen[str]: ...


@pytest.fixture
def devmem(monkeypatch: pytest.MonkeyPatch) -> Devmem:
    monkeypatch.setenv("COLUMNS", "200")

    return run_devmem


@pytest.fixture
def start_devmem() -> Iterator[StartDevmem]:
    """Start commands that are killed when the test is over."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object, stdin: int | IO[str] | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "devmem", *(str(argument) for argument in arguments)],
            stdin=stdin or subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": "1"},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()


@pytest.fixture
def make_workflow(tmp_path: Path) -> Callable[[str], Path]:
    """Write a workflow into the test's folder."""

    def make(text: str) -> Path:
        path = tmp_path / "team.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return make


@pytest.fixture
def workflow(make_workflow: Callable[[str], Path]) -> Path:
    return make_workflow(WORKFLOW)


@pytest.fixture
def filled(workflow: Path, devmem: Devmem, tmp_path: Path) -> Path:
    """A workflow whose store `notes` has three items."""
    data = tmp_path / "data.jsonl"
    data.write_text(
        '{"id": "d1", "speaker": "Mara", "time": "2025-04-07T09:02:00Z", "text": "The deadline is on 12 June.",'
        ' "user": "u1", "session": "s1", "metadata": {"room": 5, "mood": "good"}}\n'
        '{"id": "d2", "speaker": "Jonas", "time": "2025-05-20T10:00:00Z", "text": "The deadline moved to 26 June.",'
        ' "user": "u2"}\n'
        '{"id": "d3", "speaker": "李雷", "time": "2025-06-01T10:00:00Z", "text": "发布会改到五月三日下午两点。"}\n',
        encoding="utf-8",
    )
    devmem("import", workflow, "notes", data)
    return workflow


@pytest.fixture
def closed_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A port of this machine at which nobody answers."""
    monkeypatch.setenv("NO_PROXY", "*")
    with socket.socket() as taken:
        # Bound but not listening: nobody else gets it, and whoever connects is refused.
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def unreachable_store(port: int) -> str:
    """Return a workflow's store whose embedding provider does not answer."""
    address = f"http://127.0.0.1:{port}/v1"
    embedding = {"provider": "openai", "model": "m", "api_key": "k", "base_url": address, "params": {"max_retries": 0}}
    store = {"name": "notes", "type": "simple", "config": {"memory_path": "notes.db", "embedding": embedding}}
    return f"memory: {json.dumps([store])}\n"


def one_paragraph(result: Result) -> str:
    """Return the text on stderr, which is one line without a traceback."""
    text = result.stderr.strip()
    assert text.startswith("error: ")
    assert "\n" not in text
    assert "Traceback" not in result.output
    return text
