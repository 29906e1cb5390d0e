"""Other projects' stores, measured where they are installed; a missing one is noted with what installs it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.bench.rows import Row
from tools.bench.speed.corpus import CorpusFiles
from tools.bench.speed.processes import ROOT, Measured, MeasurementError
from tools.bench.speed.rows import label, rows_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another store, and how it is installed."""

    name: str
    imports: str
    packages: str
    more: tuple[str, ...] = ()
    """Packages that are installed afterwards, each in a call of its own."""

    def python(self, environments: Path) -> Path | None:
        """Return an interpreter that has it: of its own environment, or this one; None when neither has."""
        own = environments / self.name / "bin" / "python"
        for candidate in (own, Path(sys.executable)):
            if candidate.exists() and _can_import(candidate, self.imports):
                return candidate
        return None

    def how_to_install(self, environments: Path) -> str:
        """Return the command that makes its environment."""
        folder = environments / self.name
        calls = (f"{folder}/bin/pip install {packages}" for packages in (self.packages, *self.more))
        return " && ".join((f"{Path(sys.executable).name} -m venv {folder}", *calls))


PEERS: Final = (
    Peer(name="chroma", imports="chromadb", packages="chromadb numpy"),
    Peer(name="langgraph", imports="langgraph.store.memory", packages="langgraph numpy"),
    Peer(name="mem0", imports="mem0", packages='"mem0ai>=2,<3" numpy'),
)


def measure_peers(
    corpora: Sequence[CorpusFiles], environments: Path, seconds: float, notes: list[str]
) -> Iterator[Row]:
    """Measure each peer at each size until one takes too long; unmeasured sizes are noted, with the reason."""
    for peer in PEERS:
        python = peer.python(environments)
        yield Row(bench="speed", case=peer.name, metric="installed", value=float(python is not None), unit="flag")
        if python is None:
            notes.append(f"{peer.name}: not installed; {peer.how_to_install(environments)}")
            continue
        measured = Measured(module=peer.name, python=python)
        for corpus in corpora:
            try:
                yield from rows_of(
                    f"{peer.name}:{label(corpus.size)}", corpus.size, _figures(measured, corpus, seconds)
                )
            except MeasurementError as error:
                notes.append(f"{peer.name}:{label(corpus.size)}: {error}; larger sizes were not tried")
                break


def _figures(measured: Measured, corpus: CorpusFiles, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="devmem-bench-") as folder:
        built = measured.run("build", corpus, Path(folder), seconds=seconds)
        return {**built, **measured.run("ask", corpus, Path(folder), seconds=seconds)}


def _can_import(python: Path, module: str) -> bool:
    return subprocess.run([str(python), "-c", f"import {module}"], capture_output=True, cwd=ROOT).returncode == 0
