"""The YAML above a Markdown note: metadata and time of its paragraphs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.errors import DataFileError
from devmem.model.times import parse_time
from devmem.transfer.importing.formats import open_data
from tests.transfer.reading import items, items_of

NOTE = """\
---
title: "Launch: plan"
date: 2025-04-03
tags: [event, "planning"]
aliases: start, kick-off
draft: true
rating: .nan
author: {name: Ann, since: 2020-01-02}
empty:
---
# Venue

The Old Mill.

---

Book it.
"""


def note(folder: Path, text: str) -> Path:
    path = folder / "note.md"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_front_matter_is_metadata_and_time_of_every_paragraph(tmp_path: Path) -> None:
    found = items(note(tmp_path, NOTE))
    assert [item.content_summary for item in found] == ["The Old Mill.", "---", "Book it."]
    assert {item.event_time for item in found} == {parse_time("2025-04-03")}
    assert found[0].metadata == {
        "title": "Launch: plan",
        "date": "2025-04-03",
        "tags": ["event", "planning"],
        "aliases": "start, kick-off",
        "draft": True,
        "rating": "nan",
        "author": {"name": "Ann", "since": "2020-01-02"},
        "line": 13,
        "section": "Venue",
    }


@pytest.mark.parametrize(
    ("front", "time"),
    [
        ("created: 2025-04-03T10:30:00+02:00", "2025-04-03T08:30:00Z"),
        ("date: none\ncreated: 3. April 2025", "2025-04-03"),
        ("date: 20250403", "2025-04-03"),
        ("modified: 2025-04-03", None),
    ],
)
def test_the_time_is_the_one_that_the_front_matter_names(tmp_path: Path, front: str, time: str | None) -> None:
    (item,) = items(note(tmp_path, f"---\n{front}\n---\nText.\n"))
    assert item.event_time == (parse_time(time) if time else None)


def test_a_front_matter_that_is_not_valid_is_text_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is lost, and one note with a template does not stop the import of a whole vault."""
    front = "title: a\ncreated: {{date}}"
    found = items(note(tmp_path, f"---\n{front}\n---\n\nText.\n"))
    assert [item.full_text() for item in found] == [f"---\n{front}\n---", "Text."]
    assert "note.md:3: the front matter is not usable and is read as text: a list or mapping" in caplog.text


@given(st.text(alphabet="ab:-#[]{}&*!|>'\"\n .0", max_size=60))
def test_whatever_a_front_matter_holds_no_word_of_the_note_is_lost(
    tmp_path_factory: pytest.TempPathFactory, front: str
) -> None:
    path = note(tmp_path_factory.getbasetemp(), f"---\n{front}\n---\nThe end.\n")
    with suppress(DataFileError):
        assert any(item.full_text().endswith("The end.") for item in items(path))


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("2025-04-03.md", "2025-04-03"),
        ("2025年4月3日.md", "2025-04-03"),
        ("2025.04.03 - standup.md", "2025-04-03"),
        ("2025-13-40.md", None),
        ("20250403104512.md", None),
    ],
)
def test_the_name_of_a_daily_note_is_its_date(tmp_path: Path, name: str, day: str | None) -> None:
    path = tmp_path / name
    path.write_text("Watered the plants.\n", encoding="utf-8")
    assert items(path)[0].event_time == (parse_time(day) if day else None)
    path.write_text("---\ncreated: 2024年5月1日 下午2:30\n---\nWatered the plants.\n", encoding="utf-8")
    assert items(path)[0].event_time == parse_time("2024-05-01T14:30:00Z"), "the front matter says it better"


def test_links_of_obsidian_read_as_text_and_what_is_embedded_is_an_attachment(tmp_path: Path) -> None:
    text = """\
Met [[Ann Müller|Ann]] at the [[Old Mill]], see [[Plan#Doors|the doors]] ![[map.png|300]]

![[recording.m4a]]

| who |
| [[Ben\\|B.]] |

```bash
[[ -f x ]] && echo ![[no.png]]
```
"""
    data = open_data(note(tmp_path, text))
    found = items_of(data.records)
    assert [item.content_summary for item in found] == [
        "Met Ann at the Old Mill, see the doors",
        "| who |\n| B. |",
        "```bash\n[[ -f x ]] && echo ![[no.png]]\n```",
    ]
    assert found[0].metadata["attachments"] == ["map.png"]
    assert data.left_out.reasons == {"attachments": 1}
