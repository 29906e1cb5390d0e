"""Large attachments in a table of their own, once for all items with the same content."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from devmem.model.items import MemoryItem
from devmem.model.message import AttachmentRef
from devmem.storage.attachments import large_content, map_attachments
from devmem.storage.postgres.database import Connection
from devmem.text.patterns import lazy_pattern

# No base64 begins with @.
_STORED: Final = lazy_pattern(r"(data:[^,]*;base64,)@([0-9a-f]{64})", re.IGNORECASE)


def externalized(item: MemoryItem) -> tuple[MemoryItem, dict[str, bytes]]:
    """Return the item with references in place of its large attachments, and these by SHA-256."""
    contents: dict[str, bytes] = {}

    def externalize(ref: AttachmentRef) -> AttachmentRef:
        found = large_content(ref)
        if found is None:
            return ref
        head, content = found
        name = hashlib.sha256(content).hexdigest()
        contents[name] = content
        return replace(ref, data_uri=f"{head}@{name}")

    return map_attachments(item, externalize), contents


def insert_attachments(
    connection: Connection, store: int, rows: Sequence[int], contents: Sequence[Mapping[str, bytes]]
) -> None:
    """Insert the attachments of new items, by their rows; those that are there already are used again."""
    every = {name: content for each in contents for name, content in each.items()}
    if not every:
        return
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO attachments(store, sha256, content) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
            [(store, name, every[name]) for name in sorted(every)],
        )
        cursor.executemany(
            "INSERT INTO attachment_uses(store, sha256, row) VALUES (%s, %s, %s)",
            [(store, name, row) for row, each in zip(rows, contents, strict=True) for name in each],
        )


def delete_unused(connection: Connection, store: int, names: Sequence[str]) -> None:
    """Delete those of the attachments that no item uses any more."""
    connection.execute(
        "DELETE FROM attachments AS kept WHERE store = %s AND sha256 = ANY(%s) AND NOT EXISTS ("
        "SELECT FROM attachment_uses AS used WHERE used.store = kept.store AND used.sha256 = kept.sha256)",
        (store, list(names)),
    )


def inlined(items: Sequence[MemoryItem], read: Callable[[Sequence[str]], Mapping[str, bytes]]) -> list[MemoryItem]:
    """Return the items with their attachments as they were stored; `read` returns contents by SHA-256."""
    wanted = {found[2] for item in items for ref in _references(item) if (found := _stored(ref))}
    if not wanted:
        return list(items)
    contents = read(sorted(wanted))

    def inline(ref: AttachmentRef) -> AttachmentRef:
        found = _stored(ref)
        if found is None or found[2] not in contents:
            return ref
        return replace(ref, data_uri=found[1] + base64.b64encode(contents[found[2]]).decode("ascii"))

    return [map_attachments(item, inline) for item in items]


def read_attachments(connection: Connection, store: int, names: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of attachments by SHA-256."""
    query = "SELECT sha256, content FROM attachments WHERE store = %s AND sha256 = ANY(%s)"
    return dict(connection.execute(query, (store, list(names))).fetchall())


def _stored(ref: AttachmentRef) -> re.Match[str] | None:
    return None if ref.data_uri is None else _STORED.fullmatch(ref.data_uri)


def _references(item: MemoryItem) -> Iterable[AttachmentRef]:
    for snapshot in (item.input_snapshot, item.output_snapshot):
        for kept in snapshot.blocks if snapshot else ():
            if kept.block.attachment is not None:
                yield kept.block.attachment
