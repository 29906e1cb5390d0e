"""Pages about moving here run from top to bottom and print what they show; Chinese pages have the same code."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted((DOCS / "migration").glob("*.md"))
TRANSLATED = sorted((DOCS / "zh").glob("**/*.md"))
_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ ", re.MULTILINE)


def _fences(page: Path) -> list[tuple[str, str]]:
    return [(match["info"].strip(), match["code"]) for match in _FENCE.finditer(page.read_text(encoding="utf-8"))]


def _run(arguments: list[str], folder: Path) -> str:
    environment = {**os.environ, "PYTHONWARNINGS": "error", "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout


def _shows(code: str, printed: str) -> bool:
    """Whether a block is what was printed; `...` in it stands for a part of a line that differs each time."""
    return re.fullmatch(re.escape(code).replace(re.escape("..."), ".*"), printed) is not None


def _run_console(code: str, folder: Path) -> str:
    """Return the commands of a block, each with what it prints."""
    shown = ""
    for line in code.splitlines():
        if line.startswith("$ "):
            program, *arguments = shlex.split(line.removeprefix("$ "))
            assert program == "devmem", line
            shown += f"{line}\n{_run(['-m', 'devmem', *arguments], folder)}"
    return shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_runs_from_top_to_bottom_and_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    printed = ""
    for info, code in _fences(page):
        if info == "yaml":
            (tmp_path / "team.yaml").write_text(code, encoding="utf-8")
        elif info == "console":
            printed = _run_console(code, tmp_path)
            assert _shows(code, printed), printed
        elif info == "python":
            printed = _run(["-c", code], tmp_path)
        elif info == "text output":
            assert _shows(code, printed), printed
        else:
            assert info == "python host", f"{page.name} has a block of {info!r}, which nothing runs"


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_translated_page_has_the_code_and_the_sections_of_its_original(page: Path) -> None:
    original = DOCS / page.relative_to(DOCS / "zh")
    assert _fences(page) == _fences(original)
    text, translated = (_FENCE.sub("", each.read_text(encoding="utf-8")) for each in (original, page))
    assert len(_HEADING.findall(translated)) == len(_HEADING.findall(text))
