"""The table of versions in `docs/adapters/README.md`: which release of each host was tried last, and how it went."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from tools.hosts.environments import ROOT, CommandFailedError, Environment
from tools.hosts.host_tests import Outcome

PAGE: Final = ROOT / "docs/adapters/README.md"
_ROW: Final = re.compile(r"^\| \[(?P<host>\w+)\]\((?P<page>\w+)\.md\) \|(?P<cells>(?:[^|\n]*\|){5})$", re.MULTILINE)
_REQUIREMENT: Final = re.compile(r"(?P<name>[\w.-]+)(?:\[[^]]*\])?(?:>=|==)(?P<version>[\w.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A host in the table."""

    host: str
    page: str
    """Name of its page, without the ending."""
    minimum: Mapping[str, str]
    """Its packages and the smallest version of each that devmem accepts."""
    tested: Sequence[str]
    """Version of each of the packages in the last run."""
    on: str
    """Date of the last run, as ISO 8601 has it."""
    ours: str
    """How our tests went."""
    own: str
    """How the host's own tests and suites went; empty where none were run."""

    def __str__(self) -> str:
        packages = ", ".join(f"`{name}` {version}" for name, version in self.minimum.items())
        cells = [packages, ", ".join(self.tested), self.on, self.ours, self.own]
        return f"| [{self.host}]({self.page}.md) | {' | '.join(cells)} |".replace("|  |", "| |")


def minimum_versions(requirements: Iterable[str]) -> dict[str, str]:
    """Return the smallest versions by package of requirements such as `agno>=3.1`, or `metagpt==0.8.2`.

    Raises:
        ValueError: a requirement names no smallest version.
    """
    found: dict[str, str] = {}
    for requirement in requirements:
        if (match := _REQUIREMENT.match(requirement)) is None:
            raise ValueError(f"{requirement!r} names no smallest version, as in `agno>=3.1`")
        found[match["name"]] = match["version"]
    return found


def required_by(extras: Iterable[str]) -> list[str]:
    """Return the requirements of extras of devmem.

    Raises:
        KeyError: there is no such extra in `pyproject.toml`.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [requirement for extra in extras for requirement in project["optional-dependencies"][extra]]


def tried(host: str, page: str, requirements: Iterable[str], environment: Environment, runs: Sequence[Outcome]) -> Row:
    """Return the row of a host that has just been run; the first outcome is that of our own tests.

    Raises:
        CommandFailedError: a package is not in the environment.
    """
    minimum = minimum_versions(requirements)
    return Row(
        host=host,
        page=page,
        minimum=minimum,
        tested=_versions(environment, list(minimum)),
        on=date.today().isoformat(),
        ours=_counts(runs[:1]),
        own=_counts(runs[1:]),
    )


def read_rows(page: str) -> list[Row]:
    """Return the rows of a page's table.

    Raises:
        ValueError: the packages of a row are not written as a name in backquotes and a version.
    """
    rows = []
    for match in _ROW.finditer(page):
        packages, tested, on, ours, own = (cell.strip() for cell in match["cells"].split("|")[:-1])
        pairs = [re.fullmatch(r"`([\w.-]+)` ([\w.]+)", each) for each in packages.split(", ")]
        minimum = {pair[1]: pair[2] for pair in pairs if pair}
        if len(minimum) < len(pairs):
            raise ValueError(f"{match['host']}: {packages!r} is not a list of packages such as `agno` 3.1")
        versions = tested.split(", ")
        rows.append(
            Row(host=match["host"], page=match["page"], minimum=minimum, tested=versions, on=on, ours=ours, own=own)
        )
    return rows


def with_row(page: str, row: Row) -> str:
    """Return a page whose table has this row in the place of that of the same host; a new host comes last.

    Raises:
        ValueError: the page has no table.
    """
    found = list(_ROW.finditer(page))
    if not found:
        raise ValueError("the page has no table of versions to renew")
    place = next((match for match in found if match["host"] == row.host), None)
    if place is None:
        return f"{page[: found[-1].end()]}\n{row}{page[found[-1].end() :]}"
    return f"{page[: place.start()]}{row}{page[place.end() :]}"


def _counts(runs: Sequence[Outcome]) -> str:
    """Return the counts of several runs together; failures that are on a list are named as such."""
    if not runs:
        return ""
    failed = sum(run.failed for run in runs)
    unexpected = sum(len(run.comparison.unexpected) for run in runs)
    skipped = sum(len(run.skipped) for run in runs)
    parts = [f"{sum(run.passed for run in runs)} passed"]
    if failed:
        parts.append(f"{failed} failed ({f'{unexpected} unexpected' if unexpected else 'all expected'})")
    if skipped:
        parts.append(f"{skipped} skipped")
    return ", ".join(parts)


def _versions(environment: Environment, packages: Sequence[str]) -> list[str]:
    code = "import json, sys; from importlib.metadata import version; print(json.dumps([*map(version, sys.argv[1:])]))"
    command = [str(environment.python), "-c", code, *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandFailedError(f"{' '.join(command)}\n{done.stderr}")
    versions: list[str] = json.loads(done.stdout)
    return versions
