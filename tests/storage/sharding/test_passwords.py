"""No password of a shard's URL is in what devmem prints, logs, returns or records, whatever command is asked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import devmem
from devmem.cli.app import app
from tools.postgres_server import USER, PostgresServer

pytestmark = pytest.mark.postgres

_SECRET = "quokkaberry"
_NUMBERS = count()
_COMMANDS = (
    "validate {team}",
    "validate {team} --json",
    "stores {team}",
    "stores {team} --json",
    "plan {team}",
    "shards {place} --tenants",
    "shards {place} --json",
    "shards move {place} ann --to one",
    "shards move {place} ann --to two --json",
    "shards move {place} ann --to six",
    "shards move {place} --cancel",
    "shards rebalance {place} --dry-run --json",
    "shards rebalance {place}",
    "search {place} train --all-users --explain",
    "search {place} train --all-users --explain --json",
    "search {place} train --user ann --json",
    "add {place} tea --user bob",
    "stats {place}",
    "stats {place} --json",
    "doctor {place}",
    "doctor {place} --json",
    "doctor {team}",
    "history {place} nothing",
    "runs {place}",
    "consolidate {place} --dry-run --json",
    "archive {place}",
    "export {place} --all-users",
    "tombstones {place}",
    "forget {place} --user ann --tombstone --yes",
    "forget {place} --user bob --yes --json",
    "backup {place} backup.db",
    "drop {place} --yes",
    "reindex {place}",
    "shards drain {place} one --json",
    "shards drain {place} two",
    "shards drain {place} one --cancel",
    "shards drain {place} six",
)


@pytest.fixture
def places(postgres_server: PostgresServer) -> list[str]:
    """URLs with the password in each place where one can be; the server takes any."""
    number = next(_NUMBERS)
    first, second, third = (postgres_server.url(store=f"secret {name} {number}") for name in "abc")
    return [
        first.replace(f"{USER}@", f"{USER}:{_SECRET}@"),
        second.replace(f"{USER}@", f"{USER}:a%40{_SECRET}%2F@"),
        f"{third}&password={_SECRET}",
    ]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Callable[..., str]:
    """Run commands on a workflow, and return all that was printed and logged."""
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)

    def run(team: Path, commands: Sequence[str] = _COMMANDS) -> str:
        printed = []
        for command in commands:
            arguments = command.format(team=team, place=f"{team}#notes").split()
            result = CliRunner().invoke(app, ["--verbose", *arguments])
            assert not isinstance(result.exception, AssertionError | AttributeError | TypeError), result.exception
            printed.append(f"{command}\n{result.output}")
        return "\n".join([*printed, caplog.text])

    return run


def _workflow(path: Path, places: list[str]) -> Path:
    shards = dict(zip(("one", "two", "three"), places, strict=True))
    config = {"memory_path": {"shards": shards, "by": "user"}}
    path.write_text(yaml.safe_dump({"memory": [{"name": "notes", "type": "simple", "config": config}]}))
    return path


def _check(text: str) -> None:
    for line in text.splitlines():
        assert _SECRET not in line
    assert "***" in text


def test_no_command_prints_it(tmp_path: Path, places: list[str], said: Callable[..., str]) -> None:
    team = _workflow(tmp_path / "team.yaml", places)
    with devmem.open(f"{team}#notes") as memory:
        for user in ("ann", "bob", "cy", "dan"):
            memory.add(f"{user} takes the train", user=user)
        receipt = memory.forget(user="dan")
        shown = [repr(memory), repr(receipt), str(receipt), repr(memory.store), memory.store.collection.location]  # type: ignore[attr-defined]
    _check("\n".join([*shown, said(team)]))


def test_no_command_prints_it_while_a_shard_is_down(
    tmp_path: Path, places: list[str], said: Callable[..., str]
) -> None:
    """The errors of the driver, too, which names what it was connected with."""
    team = _workflow(tmp_path / "team.yaml", places)
    with devmem.open(f"{team}#notes") as memory:
        memory.add("ann takes the train", user="ann")
    gone = [*places[:1], *(place.replace("port=", "port=1") for place in places[1:])]
    text = said(
        _workflow(team, gone),
        [
            "shards {place} --json",
            "search {place} train --all-users --explain --json",
            "search {place} train --user bob",
            "add {place} tea --user bob",
            "doctor {team} --json",
            "forget {place} --user ann --yes",
            "shards drain {place} two",
        ],
    )
    _check(text)
    assert "cannot be used" in text


@pytest.mark.parametrize(
    "wrong", ["postgres://me:{}@h/db?store=a&nonsense=1", "mysql://me:{}@h/db", "postgres://me:{}@"]
)
def test_no_refused_declaration_prints_it(tmp_path: Path, wrong: str, places: list[str]) -> None:
    team = _workflow(tmp_path / "team.yaml", [places[0], places[1], wrong.format(_SECRET)])
    for arguments in (["validate", str(team)], ["shards", f"{team}#notes"], ["--debug", "count", f"{team}#notes"]):
        result = CliRunner().invoke(app, arguments)
        assert result.output
        assert _SECRET not in result.output
    assert result.exit_code == 2


_WRITING_COMMANDS = (
    "import {place} data.jsonl",
    "export {place} --output notes.json",
    "export {team}#docs --output docs.json",
    "copy {team}#docs {place}",
    "copy {place} {team}#docs",
    "consolidate {place}",
    "consolidate {team}#docs --archive-before 2099-01-01 --max-trust 1",
    "archive {team}#docs",
    "forget {team}#docs --matching quokka --user ann --yes --json",
    "forget {team} --user ann --tombstone --yes",
    "forget {place} --user cy --yes --json",
    "tombstones {place} --json",
    "runs {place} --json",
    "run {team} --input hello",
    "check {team}",
    "drop {team}#docs --yes",
)


def test_no_file_holds_it(tmp_path: Path, places: list[str], said: Callable[..., str]) -> None:
    """Receipts, exports, journals, decisions, logs of what agents were shown, and the other shards."""
    team, shards = tmp_path / "team.yaml", {"one": places[0], "two": "two.db"}
    team.write_text(
        yaml.safe_dump(
            {
                "memory": [
                    {"name": "notes", "type": "simple", "config": {"memory_path": {"shards": shards}}},
                    {"name": "docs", "type": "simple", "config": {"memory_path": places[1]}},
                ],
                "record_recalls": True,
                "nodes": [{"id": "a", "type": "literal", "config": {"content": "tea"}}],
            }
        )
    )
    (tmp_path / "data.jsonl").write_text('{"id": "q", "text": "a quokka", "user": "bob"}')
    with devmem.open(f"{team}#notes") as memory, devmem.open(f"{team}#docs") as docs:
        for user in ("ann", "bob", "cy"):
            memory.add(f"{user} takes the train", user=user)
        docs.add("a quokka takes the train", user="ann")
        shown = [repr(memory.erase(user="bob", tombstone=True)), repr(docs.erase(matching="nothing"))]
    text = "\n".join([*shown, said(team, _WRITING_COMMANDS)])
    assert "Usage:" not in text
    assert "not reached: postgresql:///postgres?store=" in text
    _check(text)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path != team]
    assert {"two.db", "notes.json", "docs.json"} <= {path.name for path in files}
    assert [path for path in files if _SECRET.encode() in path.read_bytes()] == []
