"""Large attachments in a table of their own, once for all items with the same content, instead of inside the rows."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from devmem.model.items import MemoryContentSnapshot, MemoryItem
from devmem.model.message import AttachmentRef
from devmem.text.patterns import lazy_pattern

INLINE_LIMIT: Final = 64 * 1024
"""Characters of a data URI that stay in the row."""

_DATA_URI: Final = lazy_pattern(r"data:[^,]*;base64,", re.IGNORECASE)
# No base64 begins with @.
_STORED: Final = lazy_pattern(r"(data:[^,]*;base64,)@([0-9a-f]{64})", re.IGNORECASE)


def externalized(item: MemoryItem) -> tuple[MemoryItem, dict[str, bytes]]:
    """Return the item with references in place of its large attachments, and these by SHA-256.

    One that is not base64, or not in the form that encoding its bytes again would give, stays in the item.
    """
    contents: dict[str, bytes] = {}

    def externalize(ref: AttachmentRef) -> AttachmentRef:
        uri = ref.data_uri
        if uri is None or len(uri) <= INLINE_LIMIT or not (head := _DATA_URI.match(uri)):
            return ref
        encoded = uri[head.end() :]
        try:
            content = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            return ref
        if base64.b64encode(content).decode("ascii") != encoded:
            return ref
        name = hashlib.sha256(content).hexdigest()
        contents[name] = content
        return replace(ref, data_uri=f"{head[0]}@{name}")

    return _map_attachments(item, externalize), contents


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

    return [_map_attachments(item, inline) for item in items]


def _stored(ref: AttachmentRef) -> re.Match[str] | None:
    return None if ref.data_uri is None else _STORED.fullmatch(ref.data_uri)


def _references(item: MemoryItem) -> Iterator[AttachmentRef]:
    for snapshot in (item.input_snapshot, item.output_snapshot):
        for kept in snapshot.blocks if snapshot else ():
            if kept.block.attachment is not None:
                yield kept.block.attachment


def _map_attachments(item: MemoryItem, change: Callable[[AttachmentRef], AttachmentRef]) -> MemoryItem:
    """Return the item with every attachment changed."""
    if not any(_references(item)):
        return item

    def changed(snapshot: MemoryContentSnapshot | None) -> MemoryContentSnapshot | None:
        if snapshot is None:
            return None
        blocks = tuple(
            kept
            if (ref := kept.block.attachment) is None
            else replace(kept, block=replace(kept.block, attachment=change(ref)))
            for kept in snapshot.blocks
        )
        return replace(snapshot, blocks=blocks)

    return replace(item, input_snapshot=changed(item.input_snapshot), output_snapshot=changed(item.output_snapshot))
