"""A snapshot is imported again without loss, and read by people without harm."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from devmem import MemoryContentSnapshot, MemoryItem, Scope
from devmem.errors import DataFileError
from devmem.stores import Provenance
from devmem.transfer.exporting import Snapshot, fenced, json_parts, markdown_parts
from devmem.transfer.importing.files import FileFormat
from devmem.transfer.importing.formats import open_data
from tests.strategies import TEXTS, items


def snapshot(*kept: MemoryItem) -> Snapshot:
    return Snapshot(store="notes", store_type="simple", exported_at=1.7e9, items=kept)


def written(path: Path, *kept: MemoryItem) -> Path:
    path.write_bytes("".join(json_parts(snapshot(*kept))).encode("utf-8"))
    return path


def read(path: Path) -> list[object]:
    return list(open_data(path).records)


@given(kept=st.lists(items(8), max_size=4, unique_by=lambda item: item.id))
def test_what_was_exported_is_read_back(tmp_path_factory: pytest.TempPathFactory, kept: Sequence[MemoryItem]) -> None:
    path = written(tmp_path_factory.mktemp("exports") / "notes.json", *kept)
    assert open_data(path).format is FileFormat.EXPORT
    assert read(path) == [replace(item, embedding=None) for item in kept]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d | {"count": 3}, "says it has 3 items, but there are 1"),
        (lambda d: d | {"version": 2}, "upgrade devmem"),
        (lambda d: d | {"items": [{"content_summary": "no id"}]}, r"items\[0\]: expected an item with an `id`"),
        (lambda d: d | {"items": [{"id": "a", "content_summary": 5}]}, r"items\[0\]: content_summary"),
        (lambda d: d | {"items": None}, "expected an object with `format`"),
    ],
)
def test_a_damaged_export_is_refused(tmp_path: Path, change: Callable[[dict[str, object]], object], said: str) -> None:
    path = written(tmp_path / "x.json", MemoryItem(content_summary="hello"))
    path.write_text(json.dumps(change(json.loads(path.read_text(encoding="utf-8")))), encoding="utf-8")
    with pytest.raises(DataFileError, match=said):
        read(path)


def test_an_export_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "x.json", MemoryItem(content_summary="hello"), MemoryItem(content_summary="bye"))
    whole = path.read_bytes()
    for length in range(60, len(whole) - 2, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(DataFileError):
            read(path)


def test_markdown_is_read_by_people() -> None:
    item = MemoryItem(
        id="d1",
        content_summary="Mara: The deadline is on 12 June.",
        event_time=1_744_016_520.0,
        created_at=1_700_000_000.0,
        expires_at=1_800_000_000.0,
        scope=Scope(user="ann"),
        provenance=Provenance(name="data_file.jsonl", parents=("d0",)),
        trust=0.5,
        metadata={"room": 5, "empty": []},
        input_snapshot=MemoryContentSnapshot(text="And the whole question."),
    )
    page = "".join(markdown_parts(snapshot(item, replace(item, id="d2", event_time=253_402_350_000.0))))
    assert page.startswith("# Memory notes\n\nA `simple` store of devmem, exported 2023-11-14T22:13:20Z.\n")
    assert "\n## 2025-04-07\n\n### 09:02 data\\_file.jsonl\n\n```text\nMara: The deadline is on 12 June.\n```\n" in page
    assert "The whole input:\n\n```text\nAnd the whole question.\n```" in page
    assert "- user: ann\n- trust: 0.5\n- made from: d0\n- room: 5\n" in page
    assert "empty" not in page
    # In the year 10000 of UTC, as the last evening of 9999 is west of it.
    assert "\n## 2.53402e+11\n" in page
    assert page.endswith("\n2 items\n")


@given(text=TEXTS)
def test_no_text_leaves_its_fence(text: str) -> None:
    """A text with fences of its own is still one block."""
    for hostile in (text, f"```\n# heading {text}\n````", "`" * 7):
        first, *_ = block = fenced(hostile).rstrip("\n").split("\n")
        ticks = first.removesuffix("text")
        assert set(ticks) == {"`"}
        assert block[-1] == ticks
        assert not any(line.strip().startswith(ticks) for line in block[1:-1])


@given(key=TEXTS, value=TEXTS, name=TEXTS)
def test_nothing_but_a_text_makes_markup(key: str, value: str, name: str) -> None:
    """Keys, values, ids and the names in headings are plain text to whatever renders the page."""
    for hostile in (key, f"**{key}**", f"<b>{key}</b>", f"[{key}](https://x.test)", f"a\n# {key}", f"![{key}][1]"):
        item = MemoryItem(
            id=hostile,
            content_summary="x",
            provenance=Provenance(name=name),
            scope=Scope(user=value),
            metadata={hostile: value, "k": hostile},
        )
        page = "".join(markdown_parts(Snapshot(store=hostile, store_type="simple", exported_at=0.0, items=[item])))
        tokens = MarkdownIt("commonmark").parse(page)
        blocks = [token.type for token in tokens if token.type.endswith("_open")]
        assert blocks.count("heading_open") == 3
        assert blocks.count("bullet_list_open") == 1
        inline = {child.type for token in tokens for child in token.children or ()}
        assert inline <= {"text", "text_special", "code_inline", "softbreak"}
