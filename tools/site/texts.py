"""The documentation for language models: `llms.txt`, `llms-full.txt`, and each page as Markdown beside its HTML.

`llms.txt` has the form of https://llmstxt.org: a title, a summary, and sections of links with what each page is about.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from tools.site.pages import Section, reading_order, sections_of

_SUMMARY = (
    "Memory for agents and teams of agents, as a Python package and a command: opened in one line or declared in YAML, "
    "kept in a file on the own machine or in PostgreSQL, searched by meaning and words without a service."
)


def write_texts(source: Path, site: Path) -> None:
    """Write the pages of the folder `source` into the site as text, before tables of contents are added to them."""
    order = reading_order(source)
    for name in order:
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, site / name)
    listing = "\n".join(["# devmem", "", f"> {_SUMMARY}", "", *_listing(sections_of(source / "index.md", source))])
    (site / "llms.txt").write_text(listing, encoding="utf-8")
    pages = [f"<!-- {name} -->\n\n{(source / name).read_text(encoding='utf-8').strip()}\n" for name in order]
    (site / "llms-full.txt").write_text("\n".join(pages), encoding="utf-8")


def _listing(sections: list[Section]) -> Iterator[str]:
    for section in sections:
        yield f"## {section.caption}"
        yield ""
        for entry in section.entries:
            about = f": {entry.summary}" if entry.summary else ""
            yield f"- [{entry.title}]({entry.page}){about}"
        yield ""
