"""The documentation's code runs, its workflows load, its links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from devmem import load_workflow

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")
KNOWN_FENCES = {"yaml", "yaml fragment", "python", "console", "text", "toml", "json", "mermaid"}


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
_IN_ORDER = [fence for fence in FENCES if {"migration", "zh"} & set(fence.page.relative_to(ROOT).parts)]
"""Blocks that build on those above them, which `test_migration.py` runs, and translations, which have the same code."""


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
def test_python_runs(fence: Fence, tmp_path: Path) -> None:
    run(["-c", fence.code], tmp_path)


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
