"""Processes that are measured: each numeric library in them takes one thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.bench.speed.corpus import CorpusFiles

ROOT: Final = Path(__file__).parents[3]
_ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class MeasurementError(Exception):
    """A measured process failed or took too long; the text has the end of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Something to measure: a module of `tools.bench.speed.measured` and the interpreter that runs it."""

    module: str
    python: Path = Path(sys.executable)

    def run(self, phase: str, corpus: CorpusFiles, folder: Path, *, seconds: float | None = None) -> dict[str, float]:
        """Run one phase and return the figures that it printed.

        Raises:
            MeasurementError: it failed, or took longer than `seconds`.
        """
        command = [str(self.python), "-m", f"tools.bench.speed.measured.{self.module}", phase]
        command += [str(corpus.folder), str(corpus.size), str(folder)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, cwd=ROOT, timeout=seconds, env={**os.environ, **_ONE_THREAD}
            )
        except subprocess.TimeoutExpired as error:
            raise MeasurementError(f"`{phase}` did not finish in {seconds:g} s") from error
        if done.returncode:
            last = "\n".join(done.stderr.strip().splitlines()[-5:])
            raise MeasurementError(f"`{phase}` failed: {last}")
        figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
        return figures
