"""Rules of every source file: a docstring, a length, and imports that point down only."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.trips.recorder import PACKAGES, package_folder

ROOT = Path(__file__).parents[2]
LONGEST_FILE, LONGEST_FUNCTION = 600, 60
LONGER = {
    "devmem/errors.py": 650,
    "devmem/text/times.py": 1100,
    "devmem/storage/postgres/search.py": 650,
    "devmem/stores/collection_memory.py": 650,
}
"""Files that are read from top to bottom: all errors, the grammar of times of two languages, the source of a search."""

FOLDERS = [package_folder(package) for package in PACKAGES]
"""Folders of the packages, which are not beside the tests where these run on an installed wheel."""
FILES = sorted(file for folder in FOLDERS for file in folder.rglob("*.py"))


def name_of(file: Path) -> str:
    (package,) = (folder for folder in FOLDERS if folder in file.parents)
    return str(file.relative_to(package.parent))


def too_long(tree: ast.AST, *, is_command: bool) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            # The signature of a command declares its options.
            start = node.body[0].lineno if is_command else first
            lines = (node.end_lineno or first) - start + 1
            if lines > LONGEST_FUNCTION:
                yield f"{node.name}: {lines} lines"


def test_the_sources_are_found() -> None:
    assert len(FILES) > 50


def faults(file: Path) -> Iterator[str]:
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    docstring = ast.get_docstring(tree)
    if not docstring:
        yield "the module needs a docstring"
    elif not docstring.splitlines()[0].rstrip().endswith((".", ":", "?")):
        yield "the first line of its docstring is not a sentence"
    if (lines := len(source.splitlines())) > LONGER.get(name_of(file), LONGEST_FILE):
        yield f"{lines} lines"
    yield from too_long(tree, is_command="/cli/commands/" in name_of(file))


def test_each_file_has_a_docstring_and_stays_short() -> None:
    """One test for all, as hundreds take as much time as their files do."""
    assert {name_of(file): found for file in FILES if (found := list(faults(file)))} == {}


def lint_imports(folder: Path, packages: Sequence[Path]) -> subprocess.CompletedProcess[str]:
    """Check the packages that are in these folders, by the contracts of the project in `folder`."""
    script = Path(sys.executable).with_name("lint-imports")
    path = os.pathsep.join(str(package) for package in packages)
    return subprocess.run(
        [str(script), "--no-cache"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_imports_point_down_only() -> None:
    done = lint_imports(ROOT, [folder.parent for folder in FOLDERS])
    assert done.returncode == 0, done.stdout[-3000:]


FORBIDDEN = [
    ("devmem/text/times.py", "devmem.workflow", "Lower floors never import higher ones"),
    ("devmem/cli/app.py", "devmem_stores.simple", "The core never imports a store"),
    ("devmem_stores/simple/config.py", "devmem_stores.blackboard", "Stores never import one another"),
    ("devmem/adapters/openai.py", "devmem.memory.reading", "Adapters import public names only"),
    ("devmem/adapters/mcp/tools.py", "devmem.model.caller", "Adapters import public names only"),
]


def test_imports_that_point_up_are_noticed(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in FOLDERS:
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    for file, module, _ in FORBIDDEN:
        with (tmp_path / file).open("a", encoding="utf-8") as changed:
            changed.write(f"\nimport {module}\n")
    done = lint_imports(tmp_path, [tmp_path])
    assert done.returncode == 1
    for file, module, contract in FORBIDDEN:
        assert f"{contract} BROKEN" in done.stdout
        section = re.search(rf"^{contract}\n-+\n(.*?)(?=^[^\n]+\n---|\Z)", done.stdout, re.MULTILINE | re.DOTALL)
        assert section
        assert f"{file.removesuffix('.py').replace('/', '.')} -> {module} (" in section[1]
