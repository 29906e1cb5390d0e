"""Large attachments in a table of their own, once for all items with the same content, instead of inside the rows."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from devmem.model.items import MemoryContentSnapshot, MemoryItem
from devmem.model.message import AttachmentRef
from devmem.text.patterns import lazy_pattern

INLINE_LIMIT: Final = 64 * 1024
"""Characters of a data URI that stay in the row."""

_DATA_URI: Final = lazy_pattern(r"data:[^,]*;base64,", re.IGNORECASE)
# No base64 begins with @: it stands before the SHA-256 of an attachment, and before content that was given with an @.
_MARKED: Final = lazy_pattern(r"(data:[^,]*;base64,)@(.*)", re.IGNORECASE | re.DOTALL)


def externalized(item: MemoryItem) -> tuple[MemoryItem, dict[str, bytes]]:
    """Return the item with references in place of its large attachments, and these by SHA-256.

    One that is not base64, or not in the form that encoding its bytes again would give, stays in the item.
    """
    contents: dict[str, bytes] = {}

    def externalize(ref: AttachmentRef) -> AttachmentRef:
        if not (head := _DATA_URI.match(ref.data_uri or "")):
            return ref
        encoded = head.string[head.end() :]
        if encoded.startswith("@"):
            return replace(ref, data_uri=f"{head[0]}@{encoded}")
        if len(head.string) <= INLINE_LIMIT:
            return ref
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
    marked = {
        found[2] for item in items for ref in _references(item) if (found := _MARKED.fullmatch(ref.data_uri or ""))
    }
    if not marked:
        return list(items)
    contents = read(sorted(name for name in marked if not name.startswith("@")))

    def inline(ref: AttachmentRef) -> AttachmentRef:
        found = _MARKED.fullmatch(ref.data_uri or "")
        if found and found[2].startswith("@"):
            return replace(ref, data_uri=found[1] + found[2])
        if found and found[2] in contents:
            return replace(ref, data_uri=found[1] + base64.b64encode(contents[found[2]]).decode("ascii"))
        return ref

    return [_map_attachments(item, inline) for item in items]


def _references(item: MemoryItem) -> list[AttachmentRef]:
    sides = (item.input_snapshot, item.output_snapshot)
    return [ref for side in sides if side for kept in side.blocks if (ref := kept.block.attachment)]


def _map_attachments(item: MemoryItem, change: Callable[[AttachmentRef], AttachmentRef]) -> MemoryItem:
    """Return the item with every attachment changed."""
    changed: dict[str, Any] = {}
    for side in ("input_snapshot", "output_snapshot"):
        snapshot: MemoryContentSnapshot | None = getattr(item, side)
        if snapshot and any(kept.block.attachment for kept in snapshot.blocks):
            blocks = tuple(
                replace(kept, block=replace(kept.block, attachment=change(ref)))
                if (ref := kept.block.attachment)
                else kept
                for kept in snapshot.blocks
            )
            changed[side] = replace(snapshot, blocks=blocks)
    return replace(item, **changed) if changed else item
