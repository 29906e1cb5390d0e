"""Kills, two writers and corruption, injected into the stores of others by their own interpreters."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.torture.results import Plan, Result

_WORKERS: Final = Path(__file__).parent / "workers"
_MANY: Final = 100_000
_SECONDS: Final = 120.0


class PeerMissingError(Exception):
    """The peer is not installed; the text is the command that installs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A store of others, and the packages of its environment."""

    name: str
    packages: str
    npm: bool = False
    """A package of npm, whose worker runs with this interpreter."""

    def command(self, environments: Path) -> tuple[list[str], dict[str, str]]:
        """Return the command of the worker and its environment.

        Raises:
            PeerMissingError: it is not installed below `environments`.
        """
        folder = (environments / self.name).absolute()
        script = str(_WORKERS / f"{self.name}_worker.py")
        if self.npm:
            server = folder / "node_modules" / self.packages / "dist" / "index.js"
            if not server.exists():
                raise PeerMissingError(f"npm install --prefix {folder} {self.packages}")
            return [sys.executable, script], {**os.environ, "MCP_MEMORY_SERVER": str(server)}
        python = folder / "bin" / "python"
        if not python.exists():
            raise PeerMissingError(f"python -m venv {folder} && {python.parent}/pip install {self.packages}")
        return [str(python), script], {**os.environ}


PEERS: Final = {
    peer.name: peer
    for peer in (
        Peer(name="chroma", packages="chromadb"),
        Peer(name="langgraph", packages="langgraph langgraph-checkpoint-sqlite sqlite-vec"),
        Peer(name="mem0", packages="'mem0ai>=2,<3'"),
        Peer(name="mcp", packages="@modelcontextprotocol/server-memory", npm=True),
    )
}


class Worker:
    """A process of a peer; its output is a line a token."""

    def __init__(self, peer: Peer, environments: Path, folder: Path, *words: str) -> None:
        """Start the worker with a command of `workers.protocol`."""
        command, environment = peer.command(environments)
        folder.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [*command, words[0], str(folder), *words[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        assert self.process.stdout is not None
        self._output = self.process.stdout

    def lines(self, number: int) -> list[str]:
        """Read some lines, fewer when the process ends."""
        return [line.strip() for _ in range(number) if (line := self._output.readline())]

    def rest(self) -> list[str]:
        """Read to the end and wait for the process."""
        lines = [line for line in self._output.read().split("\n")[:-1] if line]
        self.process.wait(_SECONDS)
        return lines


def run(plan: Plan, name: str, environments: Path) -> list[Result]:
    """Inject the three classes into one peer.

    Raises:
        PeerMissingError: it is not installed.
    """
    peer = PEERS[name]
    peer.command(environments)
    return [
        _kill(plan, peer, environments),
        _two_writers(plan, peer, environments),
        _corrupt(plan, peer, environments),
    ]


def _dumped(peer: Peer, environments: Path, folder: Path) -> tuple[Counter[str], int, bool]:
    """Return the tokens of a store, the number of altered texts, and whether it could be read."""
    worker = Worker(peer, environments, folder, "dump")
    lines = [line.split() for line in worker.rest() if line != "ready"]
    found = Counter(token for token, _ in lines)
    return found, sum(state == "altered" for _, state in lines), worker.process.returncode == 0


def _check(peer: Peer, environments: Path, folder: Path, acknowledged: set[str], result: Result) -> None:
    found, altered, readable = _dumped(peer, environments, folder)
    result.acknowledged = len(acknowledged)
    if not readable:
        result.fail("unrecovered", "the store cannot be opened again")
        return
    if missing := acknowledged - set(found):
        result.fail("lost", f"{sorted(missing)[:3]}", len(missing))
    if doubled := [token for token, count in found.items() if count > 1]:
        result.fail("doubled", f"{doubled[:3]}", len(doubled))
    if altered:
        result.fail("wrong", f"{altered} altered texts", altered)


def _kill(plan: Plan, peer: Peer, environments: Path) -> Result:
    result, folder = Result(fault="kill"), plan.folder / f"{peer.name}-kill"
    chance = plan.random("peer", peer.name)
    acknowledged: set[str] = set()
    for kill in range(plan.extent(short=3, full=20)):
        worker = Worker(peer, environments, folder, "write", f"w{kill}x", str(_MANY))
        acknowledged |= set(worker.lines(1 + chance.randrange(60)))
        worker.process.kill()
        acknowledged |= set(worker.rest())
        result.tried += 1
    _check(peer, environments, folder, acknowledged - {"ready"}, result)
    return result


def _two_writers(plan: Plan, peer: Peer, environments: Path) -> Result:
    result, folder = Result(fault="two writers"), plan.folder / f"{peer.name}-writers"
    _dumped(peer, environments, folder)
    count = plan.extent(short=20, full=60)
    writers = [Worker(peer, environments, folder, "write", f"w{number}x", str(count)) for number in (1, 2)]
    acknowledged = {line for writer in writers for line in writer.rest()} - {"ready"}
    result.tried = 2 * count
    if len(acknowledged) < 2 * count:
        result.fail(
            "unrecovered", f"{2 * count - len(acknowledged)} writes were refused", 2 * count - len(acknowledged)
        )
    _check(peer, environments, folder, acknowledged, result)
    return result


def _corrupt(plan: Plan, peer: Peer, environments: Path) -> Result:
    """Flip a bit of any file; a refusal is right, an altered or missing text without a word is not."""
    result, template = Result(fault="corruption: bit flip"), plan.folder / f"{peer.name}-template"
    chance = plan.random("peer corruption", peer.name)
    acknowledged = set(Worker(peer, environments, template, "write", "w1x", "60").rest()) - {"ready"}
    for _ in range(plan.extent(short=3, full=40)):
        folder = plan.folder / f"{peer.name}-corrupted"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder)
        files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.stat().st_size]
        file = chance.choices(files, weights=[file.stat().st_size for file in files])[0]
        data = bytearray(file.read_bytes())
        at = chance.randrange(len(data))
        data[at] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
        result.tried += 1
        found, altered, readable = _dumped(peer, environments, folder)
        result.acknowledged += len(acknowledged)
        if readable and (missing := len(acknowledged - set(found))):
            result.fail("lost", f"byte {at} of {file.name}: {missing} texts without a word", missing)
        if altered:
            result.fail("wrong", f"byte {at} of {file.name}: an altered text", altered)
    return result
