"""The pages become a site: their links, lists and diagrams."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.site import pages
from tools.site.search import CLICKS, QUESTIONS, RESULTS, SearchIndex, findings_of, load_questions, text_of
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


def test_the_questions_are_those_of_the_page() -> None:
    page = (ROOT / "docs/questions.md").read_text("utf-8")
    assert [question.asks for question in load_questions(QUESTIONS)] == re.findall(r"^## (.*)$", page, re.MULTILINE)


def test_each_answer_is_on_its_pages(prepared: Path) -> None:
    """The built site is asked as well, which takes Sphinx a minute."""
    missing = [
        f"{page}: {question.says}"
        for question in load_questions(QUESTIONS)
        for page in question.pages
        if question.says not in _prose(prepared / f"{page}.md")
    ]
    assert missing == []


def _prose(page: Path) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", page.read_text("utf-8"))
    return " ".join(re.sub(r"[`*]|\\(?=[<>])", "", text).split())


def _index(**pages: str) -> SearchIndex:
    """Return an index of pages by title whose terms are the words of their texts, as Sphinx writes it."""
    words = sorted({word for text in pages.values() for word in text.split()})
    data = {
        "docnames": list(pages),
        "titles": [name.title() for name in pages],
        "alltitles": {name.title(): [[number, None]] for number, name in enumerate(pages)},
        "titleterms": {name.removesuffix("s"): number for number, name in enumerate(pages)},
        "terms": {word: [n for n, text in enumerate(pages.values()) if word in text.split()] for word in words},
        "objects": {"devmem": [[0, 0, 1, "", "Memory"]]},
        "objnames": {"0": ["py", "class", "Python class"]},
    }
    return SearchIndex(data, frozenset({"the"}), ("benchmarks",))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("stage", ["stage", "guide"], id="a title comes before a text"),
        pytest.param("the agent stage", ["guide"], id="every word counts but stop words"),
        pytest.param("agent", ["guide", "benchmarks"], id="pages for authors come later"),
        pytest.param("memory", ["guide"], id="names of objects are found"),
        pytest.param("nowhere", [], id="nothing"),
    ],
)
def test_a_search_ranks_as_the_script_of_the_site(query: str, found: list[str]) -> None:
    index = _index(guide="agent stage benchmark", stage="plan", benchmarks="agent")
    assert list(dict.fromkeys(index.search(query))) == found


@pytest.mark.kit
def test_the_site_builds_offline_and_answers_twenty_questions(tmp_path: Path) -> None:
    """`make test-kits` installs Sphinx."""
    site = tmp_path / "site"
    command = [sys.executable, "-m", "tools.site", "--output", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for found in findings_of(site, load_questions(QUESTIONS)):
        asked = found.question
        assert (found.clicks or 99) <= CLICKS, asked
        assert (found.rank or 99) <= RESULTS, asked
        assert [page for page in asked.pages if asked.says not in text_of(site, page)] == [], asked
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]*", page.read_text("utf-8")
        )
        assert loaded == [], page
