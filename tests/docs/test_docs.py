"""The documentation's code runs, its workflows load, its links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import devmem
from devmem import load_workflow

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")
KNOWN_FENCES = {
    *("yaml", "yaml fragment", "python", "console", "text", "toml", "json", "mermaid", "typescript"),
    "python host",  # needs a framework: the tests of its adapter run it
    "text output",  # what the fence before it prints; `...` stands for anything
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    page: Path
    line: int
    info: str
    code: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def _fences() -> list[Fence]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Fence(page=page, line=line, info=match["info"].strip(), code=match["code"]))
    return found


FENCES = _fences()
README = [fence for fence in FENCES if fence.page == ROOT / "README.md"]
TUTORIALS = sorted(ROOT.glob("docs/start/*.md"))
"""Pages that a reader follows from top to bottom in one folder."""
_IN_ORDER = [
    fence
    for fence in FENCES
    if fence.page in TUTORIALS or {"migration", "zh"} & set(fence.page.relative_to(ROOT).parts)
]
"""Blocks that build on those above them, which `test_migration.py` runs, tutorials, and translations, which have the
same code."""


@pytest.mark.parametrize("fence", FENCES, ids=str)
def test_fence_says_what_it_is(fence: Fence) -> None:
    assert fence.info in KNOWN_FENCES


@pytest.mark.parametrize("fence", [fence for fence in FENCES if fence.info == "yaml"], ids=str)
def test_workflow_loads_without_warnings(fence: Fence, tmp_path: Path) -> None:
    file = tmp_path / "workflow.yaml"
    file.write_text(fence.code, encoding="utf-8")
    assert load_workflow(file, environ={}).warnings == ()


@pytest.mark.parametrize(
    "fence",
    [fence for fence in FENCES if fence.info == "python" and fence not in README and fence not in _IN_ORDER],
    ids=str,
)
def test_python_runs_and_prints_what_the_page_says(fence: Fence, tmp_path: Path) -> None:
    printed = run(["-c", fence.code], tmp_path)
    following = next(iter(FENCES[FENCES.index(fence) + 1 :]), fence)
    if following.info == "text output" and following.page == fence.page:
        assert_printed(printed, following.code)


def assert_printed(printed: str, told: str) -> None:
    """Compare lines, of which `...` stands for any text, over several lines too, and a time for any other."""
    printed, told = (re.sub(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "(time)", text) for text in (printed, told))
    pattern = ".*?".join(re.escape(part) for part in told.strip().split("..."))
    assert re.fullmatch(pattern, printed.strip(), re.DOTALL), f"printed:\n{printed}\nthe page says:\n{told}"


def run(arguments: list[str], folder: Path) -> str:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout


def test_the_readme_works_from_top_to_bottom_in_an_empty_folder(tmp_path: Path) -> None:
    said = ""
    for fence in README:
        if fence.info == "yaml":
            (tmp_path / "team.yaml").write_text(fence.code, encoding="utf-8")
        elif fence.info == "python":
            said += run(["-c", fence.code], tmp_path)
        else:
            for line in fence.code.splitlines():
                program, *arguments = shlex.split(line)
                if program == "devmem":
                    said += run(["-m", "devmem", *arguments], tmp_path)
    assert said.count("June 2nd") > 3


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_works_from_top_to_bottom_in_an_empty_folder(page: Path, tmp_path: Path) -> None:
    printed = ""
    for fence in (fence for fence in FENCES if fence.page == page):
        if fence.info == "yaml":
            (tmp_path / "team.yaml").write_text(fence.code, encoding="utf-8")
        elif fence.info == "python":
            printed = run(["-c", fence.code], tmp_path)
        elif fence.info == "text output" and printed:
            assert_printed(printed, fence.code)
        elif fence.info == "console" and fence.code.startswith("$ devmem"):
            assert_commands_print(fence, tmp_path)


def assert_commands_print(fence: Fence, folder: Path) -> None:
    for command, told in re.findall(r"^\$ devmem ([^\n]*)\n((?:(?!\$ ).*\n?)*)", fence.code, re.MULTILINE):
        assert_printed(run(["-m", "devmem", *shlex.split(command)], folder), told)


@pytest.mark.parametrize(
    "fence",
    [
        fence
        for fence in FENCES
        if fence.page.name == "cli.md" and re.search(r"^\$ devmem .*\n(?!\$ )\S", fence.code, re.MULTILINE)
    ],
    ids=str,
)
def test_commands_print_what_their_page_says(fence: Fence, tmp_path: Path) -> None:
    # What `make demo` left beside its workflow is not a part of the pages.
    shutil.copytree(ROOT / "configs", tmp_path / "configs", ignore=shutil.ignore_patterns(".devmem"))
    assert_commands_print(fence, tmp_path)


def test_a_history_looks_as_on_its_page(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        launch = memory.add("The launch is on May 5th.", user="ann", id="5f2c1a")
        memory.update(launch, "The launch is on June 2nd.")
    (fence,) = (fence for fence in FENCES if fence.page.name == "versions.md" and "$ devmem history" in fence.code)
    assert_commands_print(fence, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
