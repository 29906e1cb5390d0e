"""The pages become a site: their links, lists and diagrams."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.site import pages
from tools.site.texts import write_texts

ROOT = Path(__file__).resolve().parents[2]
_FROM_ELSEWHERE = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]*")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    pages.prepare(folder)
    return folder


def test_every_page_is_in_the_lists_of_the_start_page(prepared: Path) -> None:
    """A page that no list has would be found by its address alone."""
    there = {page.relative_to(prepared).as_posix() for page in prepared.rglob("*.md")}
    assert there - set(pages.reading_order(prepared)) == set(), "add them to docs/index.md, or to the README.md beside"
    assert {"changelog.md", "security.md", "contributing.md", "decisions/search.md"} <= there


def test_links_stay_within_the_site(prepared: Path) -> None:
    for page in prepared.rglob("*.md"):
        prose = "".join(part for part, is_prose in pages.outside_fences(page.read_text("utf-8")) if is_prose)
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", prose):
            assert (page.parent / target).exists(), f"{page.relative_to(prepared)} links to {target}"


def test_a_diagram_of_calls_is_a_table(prepared: Path) -> None:
    text = (prepared / "architecture.md").read_text("utf-8")
    assert "```mermaid" not in text
    assert "| 1 | `memory.add` | `memory.memory` | `Memory.add` |" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[there](nowhere.md)\n", "page.md: the link 'nowhere.md' leads nowhere; correct or remove it"),
        ("\n```mermaid\nflowchart TD\n  a --> b\n```\n", "page.md:3: 'a --> b' is not a numbered arrow"),
    ],
)
def test_a_page_that_cannot_be_shown_names_its_place(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/page.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    with pytest.raises(pages.PageError, match=re.escape(message)):
        pages.prepare(tmp_path / "site")


def test_texts_for_language_models_have_every_page_once(prepared: Path, tmp_path: Path) -> None:
    write_texts(prepared, tmp_path)
    whole = (tmp_path / "llms-full.txt").read_text("utf-8")
    names = [page.relative_to(prepared).as_posix() for page in prepared.rglob("*.md")]
    assert sorted(re.findall(r"^<!-- ([\w/.]+\.md) -->$", whole, re.MULTILINE)) == sorted(names)
    assert "\n- [Remember chats](start/chats.md): a program" in (tmp_path / "llms.txt").read_text("utf-8")
    assert all((tmp_path / name).read_text("utf-8") in whole + "\n" for name in ("index.md", "start/chats.md"))


@pytest.mark.kit
def test_the_site_builds_offline_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """`make test-kits` installs Sphinx."""
    site = tmp_path / "site"
    command = [sys.executable, "-m", "tools.site", "--output", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in site.rglob("*.html"):
        assert _FROM_ELSEWHERE.findall(page.read_text("utf-8")) == [], page
