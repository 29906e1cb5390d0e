"""Prepare the pages of the site: `docs/` and the pages beside it, with their links, pictures and tables of contents.

The pages stay plain Markdown that a Git host shows.
What only the site needs is added to a copy: hidden tables of contents, made of the lists of links that the pages
`index.md` and `README.md` have, and tables in the place of Mermaid diagrams, which no browser draws by itself.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
START: Final = "index"
"""Name of the start page, without suffix."""
_OUTSIDE: Final = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
    "README.zh.md": "zh/overview.md",
}
"""Pages outside of `docs/`, with the page of the site that each is; the README's place is taken by the start page."""
_FENCE: Final = re.compile(r"^(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=mark)[ \t]*$\n?", re.M | re.S)
_LINK: Final = re.compile(r"(?P<open>\]\()(?P<target>(?![a-z]+:|#)[^)\s#]+)(?P<anchor>#[^)\s]*)?(?P<close>\))")
_LISTED: Final = re.compile(r"^[*|] .*?\[(?P<title>[^\]]+)\]\((?P<page>[^)#:]+\.md)\)(?P<rest>.*)$", re.MULTILINE)
"""An entry of a list, or a row of a table; its first link is the page."""
_ARROW: Final = re.compile(
    r"^\s*(?P<source>\w+)(?P<from>\W.*?)?\s*-->\|\"(?P<step>\d+): (?P<calls>[^\"]*)\"\|\s*(?P<target>\w+)(?P<to>\W.*)?$"
)


class PageError(Exception):
    """A page that cannot become a page of the site; the message names file, line and way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A link of a start page's list: a page with what is said of it."""

    title: str
    page: str
    """Path of the page from the folder of the site's pages, with suffix."""
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading of an index page with the pages that its lists name."""

    caption: str
    entries: tuple[Entry, ...]


def prepare(folder: Path) -> None:
    """Write the site's pages and the files that they link to into an empty folder.

    Raises:
        PageError: a link leads nowhere, or a diagram cannot be shown as a table.
    """
    for source, name in _page_sources():
        page = folder / name
        page.parent.mkdir(parents=True, exist_ok=True)
        text = _without_diagrams(source, source.read_text(encoding="utf-8"))
        page.write_text(_relinked(source, text, name, folder), encoding="utf-8")


def add_tables_of_contents(folder: Path) -> None:
    """Append hidden tables of contents to the index pages, which the lists of links in these pages make up."""
    for page in sorted(folder.rglob("*.md")):
        if page.name in ("index.md", "README.md"):
            tables = [_toctree(section, page, folder) for section in sections_of(page, folder)]
            page.write_text("\n".join([page.read_text(encoding="utf-8"), *tables]), encoding="utf-8")


def sections_of(page: Path, folder: Path) -> list[Section]:
    """Return the headings of an index page with the pages that their lists link to.

    A page that is listed twice belongs to the first list.
    """
    here = page.relative_to(folder).parent.as_posix()
    listed = {page.relative_to(folder).as_posix()}
    found = []
    for part in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        entries = []
        for match in _LISTED.finditer(part):
            target = posixpath.normpath(posixpath.join(here, match["page"]))
            if target not in listed:
                listed.add(target)
                entries.append(Entry(title=match["title"], page=target, summary=_summary(match)))
        if entries:
            found.append(Section(caption=part.split("\n", 1)[0].strip("# "), entries=tuple(entries)))
    return found


def _summary(entry: re.Match[str]) -> str:
    if entry[0].startswith("*"):
        return entry["rest"].removeprefix(":").strip()
    cells = [cell.strip() for cell in entry[0].strip("|").split(" | ")]
    return ", ".join(cell for cell in cells if cell and entry["page"] not in cell)


def reading_order(folder: Path) -> list[str]:
    """Return the paths of all pages as the start page lists them, each index page followed by its own pages."""

    def below(name: str) -> Iterator[str]:
        yield name
        if Path(name).name in ("index.md", "README.md"):
            for section in sections_of(folder / name, folder):
                for entry in section.entries:
                    yield from below(entry.page)

    return list(dict.fromkeys(below(f"{START}.md")))


def outside_fences(text: str) -> Iterator[tuple[str, bool]]:
    """Split a page into its text (True) and its fenced blocks (False), in order."""
    end = 0
    for match in _FENCE.finditer(text):
        yield text[end : match.start()], True
        yield match[0], False
        end = match.end()
    yield text[end:], True


def _page_sources() -> Iterator[tuple[Path, str]]:
    docs = ROOT / "docs"
    for source in sorted(docs.rglob("*.md")):
        yield source, source.relative_to(docs).as_posix()
    for name, page in _OUTSIDE.items():
        if page != f"{START}.md":
            yield ROOT / name, page


def _relinked(source: Path, text: str, name: str, folder: Path) -> str:
    def link(match: re.Match[str]) -> str:
        target = _site_path(source, match["target"], folder)
        relative = posixpath.relpath(target, posixpath.dirname(name) or ".")
        return f"{match['open']}{relative}{match['anchor'] or ''}{match['close']}"

    return "".join(_LINK.sub(link, part) if prose else part for part, prose in outside_fences(text))


def _site_path(source: Path, target: str, folder: Path) -> str:
    """Return where the target of a link is in the site, and copy it there if it is not a page."""
    path = Path(os.path.normpath(source.parent / target))
    if not path.exists():
        raise PageError(f"{source.relative_to(ROOT)}: the link {target!r} leads nowhere; correct or remove it")
    if path.is_dir():
        path /= "README.md"
    inside = path.relative_to(ROOT).as_posix()
    if inside in _OUTSIDE:
        return _OUTSIDE[inside]
    place = inside.removeprefix("docs/") if inside.startswith("docs/") else f"files/{inside}"
    if path.suffix != ".md" and not (folder / place).exists():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / place)
    return place


def _toctree(section: Section, page: Path, folder: Path) -> str:
    here = page.relative_to(folder).parent.as_posix()
    paths = [posixpath.relpath(entry.page.removesuffix(".md"), here) for entry in section.entries]
    if page.name == "README.md":
        return "\n".join(["```{toctree}", ":hidden:", "", *paths, "```", ""])
    titled = [f"{entry.title} <{path}>" for entry, path in zip(section.entries, paths, strict=True)]
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {section.caption}", "", *titled, "```", ""])


def _without_diagrams(source: Path, text: str) -> str:
    def table(match: re.Match[str]) -> str:
        if match["info"].strip() != "mermaid":
            return match[0]
        line = text.count("\n", 0, match.start()) + 2
        return _calls_table(match["code"].splitlines()[1:], f"{source.relative_to(ROOT)}:{line}")

    return _FENCE.sub(table, text)


def _calls_table(lines: list[str], place: str) -> str:
    """Return the arrows of a diagram of calls as a table, in the order of their numbers."""
    names: dict[str, str] = {}
    rows = ["| step | from | to | calls |", "| --- | --- | --- | --- |"]
    for line in lines:
        arrow = _ARROW.match(line)
        if arrow is None:
            raise PageError(
                f'{place}: {line.strip()!r} is not a numbered arrow (a -->|"1: call"| b); the site shows such '
                "diagrams as tables, draw others as SVG"
            )
        for node, label in ((arrow["source"], arrow["from"]), (arrow["target"], arrow["to"])):
            if label:
                names[node] = label.strip('()[]"')
        calls = ", ".join(f"`{call}`" if call != "…" else call for call in arrow["calls"].split(", "))
        ends = f"`{names[arrow['source']]}` | `{names[arrow['target']]}`"
        rows.append(f"| {arrow['step']} | {ends} | {calls} |")
    return "\n".join(rows) + "\n"
