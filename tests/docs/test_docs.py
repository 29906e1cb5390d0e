"""The documentation's code runs, its workflows load, its links lead somewhere."""

from __future__ import annotations

import os
import re
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
KNOWN_FENCES = {"yaml", "yaml fragment", "python", "console", "text", "toml", "json"}


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


@pytest.mark.parametrize("fence", FENCES, ids=str)
def test_fence_says_what_it_is(fence: Fence) -> None:
    assert fence.info in KNOWN_FENCES


@pytest.mark.parametrize("fence", [fence for fence in FENCES if fence.info == "yaml"], ids=str)
def test_workflow_loads_without_warnings(fence: Fence, tmp_path: Path) -> None:
    file = tmp_path / "workflow.yaml"
    file.write_text(fence.code, encoding="utf-8")
    assert load_workflow(file, environ={}).warnings == ()


@pytest.mark.parametrize("fence", [fence for fence in FENCES if fence.info == "python"], ids=str)
def test_python_runs(fence: Fence, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", fence.code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
