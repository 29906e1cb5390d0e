"""Snapshots of a store's items: JSON that `devmem import` reads back, and Markdown for people."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from devmem.model.filters import NAMED_FIELDS
from devmem.model.items import MemoryItem, dump_item_json
from devmem.stores.memory import MemoryBase
from devmem.text.display import number_of, one_line, visible, well_formed
from devmem.transfer.filling import fields_of
from devmem.transfer.importing.memories import FIELDS_KEY, FORMAT, VERSION

__all__ = ["Snapshot", "json_parts", "markdown_parts", "snapshot_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A store's items with the facts that head an export; the items can be consumed once."""

    store: str
    store_type: str
    exported_at: float
    """Seconds since the epoch, UTC."""
    items: Iterable[MemoryItem]
    fields: tuple[str, ...] = ()
    """Paths of the items' metadata by which the store is searched."""


def snapshot_of(store: MemoryBase, items: Iterable[MemoryItem]) -> Snapshot:
    """Return a snapshot of some items of a store."""
    return Snapshot(
        store=store.name,
        store_type=store.setup.store_type,
        exported_at=store.setup.clock(),
        fields=fields_of(store),
        items=items,
    )


def json_parts(snapshot: Snapshot) -> Iterator[str]:
    """Yield one JSON object, a line for each item; the count comes last, so that a truncated file is noticed."""
    head = {
        "store": snapshot.store,
        "type": snapshot.store_type,
        "exported_at": iso_time(snapshot.exported_at),
        **({FIELDS_KEY: snapshot.fields} if snapshot.fields else {}),
    }
    yield f'{{"format": {json.dumps(FORMAT)}, "version": {VERSION},\n '
    yield json.dumps(head)[1:-1] + ',\n "items": ['
    count = 0
    for item in snapshot.items:
        yield ("," if count else "") + "\n  " + dump_item_json(item).decode("utf-8")
        count += 1
    yield f'\n ],\n "count": {count}}}\n'


def iso_time(seconds: float) -> str:
    """Write a time as ISO 8601 in UTC, whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


# Special within a line; no text begins a line, so that what is special only there needs no escape.
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&])")
_TICKS = re.compile(r"`+")


def markdown_parts(snapshot: Snapshot) -> Iterator[str]:
    """Write a heading for each day and for each item, then the item's texts and what else is known of it."""
    yield f"# Memory {_inline(snapshot.store)}\n\n"
    yield f"A `{snapshot.store_type}` store of devmem, exported {iso_time(snapshot.exported_at)}.\n"
    count = 0
    for day, items in groupby(snapshot.items, key=lambda item: _time(item).partition(" ")[0]):
        yield f"\n## {day}\n"
        for item in items:
            count += 1
            yield from _item(item)
    yield f"\n---\n\n{number_of(count, 'item')}\n"


def _item(item: MemoryItem) -> Iterator[str]:
    said_by = item.provenance.name or item.provenance.kind.value
    _, _, time = _time(item).partition(" ")
    yield f"\n### {_inline(f'{time} {said_by}')}\n\n"
    yield fenced(item.content_summary)
    for label, snapshot in (("input", item.input_snapshot), ("output", item.output_snapshot)):
        if snapshot is not None and snapshot.text.strip() and snapshot.text.strip() not in item.content_summary:
            yield f"The whole {label}:\n\n{fenced(snapshot.text)}"
        for entry in snapshot.attachment_overview() if snapshot is not None else ():
            named, kind = entry["name"] or entry["attachment_id"], entry["mime_type"] or "unknown type"
            yield f"- {label} attachment: {_inline(f'{named} ({kind})')}\n"
    yield "".join(f"- {_inline(name)}: {_inline(value)}\n" for name, value in _facts(item))


def _facts(item: MemoryItem) -> Iterator[tuple[str, str]]:
    yield "id", item.id
    yield "stored", _iso(item.created_at)
    if item.expires_at is not None:
        yield "expires", _iso(item.expires_at)
    for field in NAMED_FIELDS:
        if (value := field.of(item)) is not None:
            yield field.key, value
    if item.trust != 1.0:
        yield "trust", f"{item.trust:g}"
    if item.provenance.parents:
        yield "made from", ", ".join(item.provenance.parents)
    for key, told in item.metadata.items():
        if told not in (None, "", [], {}):
            yield key, told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)


def fenced(text: str) -> str:
    """Put a text into a code block whose fence is longer than any run of backticks in it."""
    text = visible(well_formed(text))
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}\n\n"


def _inline(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(well_formed(text)))


def _time(item: MemoryItem) -> str:
    """Return when it happened as `2026-05-08 13:56`."""
    return _iso(item.created_at if item.event_time is None else item.event_time).replace("T", " ")[:16]


def _iso(seconds: float) -> str:
    try:
        return iso_time(seconds)
    except (OverflowError, OSError, ValueError):  # outside of the years that a date can have
        return f"{seconds:g}"
