"""A store's items at one moment, as JSON that `devmem import` reads back without loss."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from devmem.collections.attachments import with_inline_attachments
from devmem.messages import AttachmentRef
from devmem.model.items import MemoryItem, dump_item_json
from devmem.stores import MemoryBase
from devmem.transfer.importing.exports import FIELDS_KEY, FORMAT, VERSION
from devmem.transfer.searched_fields import fields_of


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


def snapshot_of(store: MemoryBase, items: Iterable[MemoryItem], lost: Callable[[str], None]) -> Snapshot:
    """Return a snapshot that is complete without the store: attachments kept in files are inlined.

    `lost` is called with a message for each attachment whose file cannot be read.
    """
    return Snapshot(
        store=store.name,
        store_type=store.setup.store_type,
        exported_at=store.setup.clock(),
        fields=fields_of(store),
        items=(with_inline_attachments(item, partial(_tell, item.id, lost)) for item in items),
    )


def _tell(item_id: str, lost: Callable[[str], None], ref: AttachmentRef, error: OSError) -> None:
    named = ref.name or ref.attachment_id
    lost(f"item {item_id!r}: the attachment {named!r} cannot be read: {ref.local_path}: {error.strerror or error}")


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
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
