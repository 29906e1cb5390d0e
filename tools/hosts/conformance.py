"""The conformance suites of the Model Context Protocol against `devmem mcp`."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.error import HTTPError
from urllib.request import urlopen

from tools.hosts.baselines import compare, read_baseline
from tools.hosts.environments import ROOT, Environment
from tools.hosts.host_tests import Outcome, TestsDidNotRunError

_SCENARIO: Final = re.compile(r"^[✓✗] (?P<name>[\w-]+): (?P<passed>\d+) passed, (?P<failed>\d+) failed$", re.MULTILINE)
_START: Final = 60.0
"""Seconds that a server has to start."""
_SUITE: Final = 600.0
"""Seconds that a suite has to end."""

SUITES: Final[Sequence[tuple[str, str, Sequence[str]]]] = (
    ("released", "@modelcontextprotocol/conformance@0.1.16", ()),
    ("2026-07-28", "@modelcontextprotocol/conformance@0.2.0-alpha.12", ("--requirements", "2026-07-28")),
)
"""Name, npm package and options of each suite; the expected failures are in the file of that name."""


def run_suites(environment: Environment) -> list[Outcome]:
    """Run every suite against a server on an empty memory."""
    return [_run(environment, name, options) for name, _, options in SUITES]


def _run(environment: Environment, name: str, options: Sequence[str]) -> Outcome:
    command = environment.node_folder(name) / "node_modules/.bin/conformance"
    with TemporaryDirectory() as folder, _server(environment, Path(folder)) as url:
        done = subprocess.run(
            ["node", str(command), "server", "--url", url, *options],
            cwd=folder,
            env=environment.variables(),
            capture_output=True,
            text=True,
            check=False,
            timeout=_SUITE,
        )
    found = list(_SCENARIO.finditer(done.stdout))
    if not found:
        raise TestsDidNotRunError(f"{command}: no results\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    failed = [each["name"] for each in found if int(each["failed"])]
    passed = [each["name"] for each in found if not int(each["failed"])]
    expected = read_baseline(ROOT / "tests/adapters/mcp/conformance" / f"{name}.yaml")
    return Outcome(
        name=f"conformance {name}",
        passed=sum(int(each["passed"]) for each in found),
        failed=sum(int(each["failed"]) for each in found),
        comparison=compare(failed, passed, expected),
    )


@contextmanager
def _server(environment: Environment, folder: Path) -> Iterator[str]:
    """Serve a new memory over HTTP; yields the server's URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(environment.python), "-m", "devmem", "mcp", str(folder / "memory.db"), "--http", str(port)]
    log = folder / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(command, env=environment.variables(), stdout=output, stderr=output)
    try:
        url = f"http://127.0.0.1:{port}/mcp"
        _wait(url, server, log)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=30)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START
    while time.monotonic() < until and server.poll() is None:
        try:
            urlopen(url, timeout=1).close()
        except HTTPError:
            # It answers, if only that a GET is not what it serves.
            return
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TestsDidNotRunError(f"the server did not start: {log.read_text()}")
