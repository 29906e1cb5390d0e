"""The documentation's code runs, its workflows load, its links lead somewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from devmem import load_workflow

from .blocks import FENCE, FENCES, PAGES, ROOT, Fence, assert_printed, follow, run_python

_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)
KNOWN_FENCES = {
    *("yaml", "yaml fragment", "python", "console", "text", "json", "mermaid", "typescript"),
    "python host",  # needs a framework: the tests of its adapter run it
    "text output",  # what the fence before it prints
}
OWN_CODE = [ROOT / "README.zh.md", ROOT / "docs/zh/start/chats.md"]
"""Chinese pages with sentences and a model of their own."""
IN_ORDER = sorted(
    [ROOT / "README.md", *ROOT.glob("docs/start/*.md"), *ROOT.glob("docs/migration/*.md"), *OWN_CODE],
)
"""Pages that a reader follows from top to bottom in one folder."""
TRANSLATIONS = ROOT / "docs/zh"
"""Pages that have the same code as their originals, unless they are in `OWN_CODE`."""


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
    [
        fence
        for fence in FENCES
        if fence.info == "python" and fence.page not in IN_ORDER and TRANSLATIONS not in fence.page.parents
    ],
    ids=str,
)
def test_python_runs_and_prints_what_the_page_says(fence: Fence, tmp_path: Path) -> None:
    printed = run_python(fence.code, tmp_path)
    following = next(iter(FENCES[FENCES.index(fence) + 1 :]), fence)
    if following.info == "text output" and following.page == fence.page:
        assert_printed(printed, following.code)


@pytest.mark.parametrize("fence", [fence for fence in FENCES if fence.info == "yaml fragment"], ids=str)
def test_a_part_of_a_file_is_yaml(fence: Fence) -> None:
    assert yaml.safe_load(fence.code)


NOT_COMPARED = {
    "import ": "a program of a host: the tests of its adapter run it",
    "from ": "a program of a host: the tests of its adapter run it",
    "workflow.yaml:3: ": "tests/config compares it",
    "===== Related Memories": "an example of the block, which tests/search and tests/workflow compare",
    "1. (": "a part of the block",
    "services:": "a file of Google ADK: the tests of its adapter read it",
    "devmem copy ": "several machines and PostgreSQL",
    "GRANT ": "of an administrator of PostgreSQL",
    "pg_dump ": "of an administrator of PostgreSQL",
    "ann -> agent writer": "what a chat model answers",
}
"""Beginnings of blocks of text that the tests of the pages compare with nothing, with the reason."""


def test_every_other_block_is_compared() -> None:
    texts = [fence for fence in FENCES if fence.info == "text"]
    assert [str(fence) for fence in texts if not fence.code.startswith(tuple(NOT_COMPARED))] == []
    assert [each for each in NOT_COMPARED if not any(fence.code.startswith(each) for fence in texts)] == []


@pytest.mark.parametrize("page", IN_ORDER, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_works_from_top_to_bottom_in_an_empty_folder(page: Path, tmp_path: Path) -> None:
    said = follow(page, tmp_path)
    assert page != ROOT / "README.md" or said.count("June 2nd") > 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, section in _LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name} links to {target}"
        assert not section or section in _sections(file), f"{page.name} links to {target}#{section}"


def _sections(page: Path) -> set[str]:
    """Return the ids that a page's headings get on the site and on code hosts."""
    headings = _HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("file", sorted(ROOT.glob("docs/benchmarks/*.json")), ids=lambda file: str(file.name))
def test_the_page_of_benchmarks_links_to_each_file_of_tables(file: Path) -> None:
    assert f"](benchmarks/{file.name})" in (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    content = json.loads(file.read_text(encoding="utf-8"))
    rows_of_a_command = content if isinstance(content, list) else []
    assert all({"bench", "metric", "value", "unit"} <= row.keys() for row in rows_of_a_command)
    for table in [] if rows_of_a_command else content["tables"]:
        assert {len(row) for row in table["rows"]} == {len(table["columns"])}, table["about"]
