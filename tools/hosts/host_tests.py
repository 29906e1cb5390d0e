"""A host's own test files, run where they lie, with the adapter in the place of the host's memory."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.hosts.baselines import Comparison, compare
from tools.hosts.environments import ROOT, Environment


class TestsDidNotRunError(Exception):
    """Pytest ended without results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Counts of a run, and how it differs from what is expected."""

    name: str
    passed: int
    failed: int
    comparison: Comparison
    skipped: Sequence[str] = ()
    """Tests that pytest skipped, with their reasons."""

    def lines(self) -> list[str]:
        """Return what is printed of it."""
        return [
            f"  {self.name}: {self.passed} passed, {self.failed} failed"
            + (f", {len(self.skipped)} skipped" if self.skipped else ""),
            *(f"    skipped: {test}" for test in self.skipped),
            *(f"    unexpected failure: {test}" for test in self.comparison.unexpected),
            *(f"    passes now, take it off the list: {test}" for test in self.comparison.fixed),
            *(f"    did not run, take it off the list: {test}" for test in self.comparison.absent),
        ]


def run_contracts(environment: Environment, folder: str) -> Outcome:
    """Run our own tests of an adapter; none of them may fail. What a host warns of is no failure."""
    # Without folders on the import path: below `tests` there are packages of the same names as a host's.
    options = ["--override-ini=addopts=", "--import-mode=importlib", "-p", "no:asyncio", "-W", "default"]
    return _run(environment, [folder, *options], name=folder, expected=())


def run_host_tests(
    environment: Environment, folder: Path, file: str, plugin: str, expected: Mapping[str, str]
) -> Outcome:
    """Run one of a host's test files with a plugin that puts the adapter in the place of the host's memory.

    Args:
        environment: of the host.
        folder: folder with the tests of all hosts; nothing is written there.
        file: the test file, below `folder`.
        plugin: module of the pytest plugin.
        expected: expected failures as `FILE::TEST`, with their reasons.
    """
    options = ["-p", plugin, "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={folder}", "--asyncio-mode=auto"]
    prefix = f"{file}::"
    own = [test.removeprefix(prefix) for test in expected if test.startswith(prefix)]
    return _run(environment, [*options, str(folder / file)], name=file, expected=own)


def _run(environment: Environment, arguments: Sequence[str], *, name: str, expected: Sequence[str]) -> Outcome:
    """Run pytest in the environment, and compare what failed with what is expected to."""
    report = environment.folder / "results.xml"
    report.unlink(missing_ok=True)
    command = [str(environment.python), "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment.variables(), capture_output=True, text=True, check=False)
    (environment.folder / "pytest.log").write_text(done.stdout + done.stderr)
    if not report.is_file() or done.returncode not in (0, 1):
        raise TestsDidNotRunError(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    passed: list[str] = []
    failed: list[str] = []
    skipped: list[str] = []
    for case in ET.parse(report).iter("testcase"):
        test = str(case.get("name"))
        if (skip := case.find("skipped")) is not None:
            skipped.append(f"{test}: {skip.get('message')}")
        else:
            is_failed = case.find("failure") is not None or case.find("error") is not None
            (failed if is_failed else passed).append(test)
    comparison = compare(failed, passed, expected)
    return Outcome(name=name, passed=len(passed), failed=len(failed), comparison=comparison, skipped=skipped)
