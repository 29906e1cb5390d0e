"""Size of the product (devmem and its store types, without the shipped test suites), and the cost of a first use."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import grimp

import devmem
from tools.bench.rows import Row
from tools.trips.recorder import PACKAGES, package_folder

ROOT: Final = Path(__file__).parents[2]
_SUITES: Final = "devmem.testing"
_SMALL: Final = 50
"""Maximum number of lines of a small file."""
_RUNS: Final = 5
_ITEMS: Final = 1_000
_SUBJECTS: Final = ("The launch", "The rehearsal", "The inventory", "Ann's flight", "The audit", "The workshop")
_QUESTION: Final = "When is the launch?"
_OPEN_AND_SEARCH: Final = """\
import sys, devmem
with devmem.open(sys.argv[1]) as memory:
    assert memory.search(sys.argv[2])
"""


class CommandFailedError(Exception):
    """A measured command failed; the text has the end of its output."""


def sizes() -> Iterator[Row]:
    """Return the size of the product: lines, files, packages, floors of import-linter, and signs of too small files.

    `imported_once` are modules that exactly one other module of ours imports, packages not counted.
    """
    files = [file for package in PACKAGES for file in _files(package_folder(package))]
    lines = [len(file.read_text(encoding="utf-8").splitlines()) for file in files]
    figures = {
        "lines": sum(lines),
        "files": len(files),
        "packages": sum(file.name == "__init__.py" for file in files),
        "floors": _floors(),
        "imported_once": _imported_once({_module_of(file) for file in files if file.name != "__init__.py"}),
        f"files_to_{_SMALL}_lines": sum(each <= _SMALL for each in lines),
    }
    for metric, value in figures.items():
        yield Row(bench="sizes", case="product", metric=metric, value=value, unit="count")


def first_use(runs: int = _RUNS, items: int = _ITEMS) -> Iterator[Row]:
    """Measure new interpreters that search a file or add to it, beside one that imports what everything needs.

    The file is opened as by default, with minilm where it is installed. Times are medians, of whole processes that take
    turns: CPU, and elapsed; the ratios are to the bare imports.

    Raises:
        CommandFailedError: a command failed.
    """
    with TemporaryDirectory() as folder:
        file = str(Path(folder) / "notes.db")
        with devmem.open(file) as memory:
            memory.add([f"{_SUBJECTS[n % len(_SUBJECTS)]} of group {n} is on day {n % 365}." for n in range(items)])
        commands = {
            "imports": ["-c", "import numpy, pydantic, yaml"],
            "open_search": ["-c", _OPEN_AND_SEARCH, file, _QUESTION],
            "shell_search": ["-m", "devmem", "search", file, _QUESTION],
            "shell_add": ["-m", "devmem", "add", file, "The venue is booked."],
        }
        # The first run, which is not measured, also compiles what has no bytecode yet.
        modules = {case: _modules_loaded(command, folder) for case, command in commands.items()}
        times: dict[str, list[tuple[float, float]]] = {case: [] for case in commands}
        for _ in range(runs):
            for case, command in commands.items():
                times[case].append(_times(command, folder))
    cpu, elapsed = (
        {case: statistics.median(each[n] for each in found) for case, found in times.items()} for n in (0, 1)
    )
    for case in commands:
        for metric, value, unit in (
            ("modules", modules[case], "count"),
            ("cpu", cpu[case], "ms"),
            ("cpu_ratio", cpu[case] / cpu["imports"], "ratio"),
            ("elapsed", elapsed[case], "ms"),
            ("elapsed_ratio", elapsed[case] / elapsed["imports"], "ratio"),
        ):
            yield Row(bench="first_use", case=case, metric=metric, value=value, unit=unit)


def _files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*.py")) if not f"{_module_of(file)}.".startswith(f"{_SUITES}.")]


def _module_of(file: Path) -> str:
    """Return the dotted name of a file below a package of ours."""
    parts = file.with_suffix("").parts
    start = max(at for at, part in enumerate(parts) if part in PACKAGES)
    return ".".join(parts[start:]).removesuffix(".__init__")


def _floors() -> int:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return sum(len(contract["layers"]) for contract in contracts if contract["type"] == "layers")


def _imported_once(modules: set[str]) -> int:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    return sum(len(graph.find_modules_that_directly_import(module)) == 1 for module in modules)


def _modules_loaded(command: Sequence[str], folder: str) -> int:
    """Return the number of our modules that a command imports."""
    lines = _run(["-X", "importtime", *command], folder).splitlines()
    names = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    return sum(name.partition(".")[0] in PACKAGES for name in names)


def _times(command: Sequence[str], folder: str) -> tuple[float, float]:
    """Return the milliseconds that a command takes: of CPU, and elapsed."""
    cpu, started = _cpu_of_children(), time.perf_counter()
    _run(command, folder)
    return (_cpu_of_children() - cpu) * 1000, (time.perf_counter() - started) * 1000


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(command: Sequence[str], folder: str) -> str:
    """Run a command of the interpreter in a folder, and return what it wrote to standard error."""
    sources = os.pathsep.join(str(package_folder(package).parent) for package in PACKAGES)
    # With bytecode of its own, as an installation has it: to compile everything takes longer than all else.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**environ, "PYTHONPATH": sources, "PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode")},
    )
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise CommandFailedError(f"`python {' '.join(command)}` failed: {last}")
    return done.stderr
