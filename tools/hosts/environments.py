"""Environments of hosts: a Python one for each, and npm packages where a host's suite is one."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[2]
_MARK: Final = "made.txt"
_QUIET: Final = {"PYTHONDONTWRITEBYTECODE": "1"}
"""The hosts' tests are run where they lie, and nothing is written there."""


class CommandFailedError(Exception):
    """A command that makes an environment did not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A folder with what one host needs; it is made again when its requirements change."""

    folder: Path
    requirements: Sequence[str]
    """Packages that pip installs beside devmem."""
    extra: str
    """Extras of devmem with the host's package, separated by commas; empty where there is none."""
    npm: Mapping[str, str]
    """Versions of npm packages, each in a folder of its own: two versions of one package live side by side."""
    bare: Sequence[str] = ()
    """Packages that are installed without their requirements, because these exclude devmem's."""
    source: Path | None = None
    """Folder of a host that is not a package; its modules are importable."""

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.folder / "venv" / "bin" / "python"

    def node_folder(self, name: str) -> Path:
        """Folder that an npm package was installed into."""
        return self.folder / name

    def variables(self) -> dict[str, str]:
        """Return the variables of a command in this environment."""
        paths = [str(self.python.parent), *(str(self.node_folder(name) / "node_modules/.bin") for name in self.npm)]
        return {
            **os.environ,
            "PATH": os.pathsep.join([*paths, os.environ.get("PATH", "")]),
            # The host's folder comes last: it may have packages of the same names as the tests and tools here.
            "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *([self.source] if self.source else [])])),
            **_QUIET,
        }

    def make(self) -> bool:
        """Install everything, unless it is there; return whether something was installed.

        Raises:
            CommandFailedError: pip or npm did not work; the text is what it said.
        """
        mark = self.folder / _MARK
        wanted = self._digest()
        if mark.is_file() and mark.read_text() == wanted:
            return False
        mark.unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        run([sys.executable, "-m", "venv", "--clear", str(self.folder / "venv")])
        install = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        extras = f"[{self.extra}]" if self.extra else ""
        run([*install, "--editable", f"{ROOT}{extras}", *self.requirements])
        if self.bare:
            run([*install, "--no-deps", *self.bare])
        for name, package in self.npm.items():
            folder = self.node_folder(name)
            folder.mkdir(exist_ok=True)
            run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), package])
        mark.write_text(wanted)
        return True

    def _digest(self) -> str:
        # The tables of linters and type checkers change nothing that is installed.
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        own = [project["optional-dependencies"][extra] for extra in self.extra.split(",") if extra]
        installed = [project["dependencies"], own, project["scripts"], project["entry-points"]]
        facts = [str(ROOT), self.extra, list(self.requirements), list(self.bare), dict(self.npm), installed]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def run(command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a command to its end, and return what it printed to standard output.

    Args:
        command: a program and its arguments.
        cwd: folder that it runs in; by default that of this process.
        env: its variables; by default those of this process.

    Raises:
        CommandFailedError: it is not installed, or ended with an error.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env)
    except FileNotFoundError as error:
        raise CommandFailedError(f"{command[0]} is not installed") from error
    if done.returncode:
        raise CommandFailedError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout
