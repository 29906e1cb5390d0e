"""Large attachments live in files beside the store, named by their content, instead of inside its rows."""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from devmem.errors import CollectionUnwritableError
from devmem.model.blocks import AttachmentRef
from devmem.model.items import MemoryContentSnapshot, MemoryItem
from devmem.text.atomic_write import replace_file
from devmem.text.patterns import lazy_pattern

INLINE_LIMIT: Final = 64 * 1024
"""Characters of a data URI that stay in the row."""

# The store may have been renamed since, together with its folder.
_STORED: Final = lazy_pattern(r"[^/]*\.files/([0-9a-f]{64})")
_NAMED: Final = lazy_pattern(r"\.files/([0-9a-f]{64})")
_LOG: Final = logging.getLogger(__name__)

_DATA_URI: Final = lazy_pattern(r"data:[^,]*;base64,", re.IGNORECASE)


class AttachmentFiles:
    """The folder of a store's large attachments."""

    def __init__(self, folder: Path, *, inline_limit: int = INLINE_LIMIT) -> None:
        self.folder, self._inline_limit = folder, inline_limit
        self._prefix = f"{folder.name}/"
        self.let_go_of: set[str] = set()
        """Names of files that a deleted item referred to; the owner of the write lock clears it."""

    def put_away(self, item: MemoryItem) -> MemoryItem:
        """Write the item's large inline attachments to files, and give the item with references to them.

        Raises:
            CollectionUnwritableError: a file cannot be written; nothing refers to it.
        """
        return _with_attachments(item, self._put_away)

    def bring_back(self, item: MemoryItem) -> MemoryItem:
        """Give the item with its references as absolute paths."""
        return _with_attachments(item, self._absolute)

    def let_go(self, body: str) -> None:
        """Note that a stored item is being deleted: its files may not be needed any more."""
        self.let_go_of |= set(_NAMED.findall(body))

    def keep_all(self) -> None:
        """Note that nothing was deleted after all."""
        self.let_go_of.clear()

    def remove_unless(self, needed: Callable[[str], bool]) -> None:
        """Delete the files that were let go and are not needed by another item."""
        for name in self.let_go_of:
            if not needed(name):
                self._remove(self.folder / name)
        self.let_go_of.clear()

    @staticmethod
    def _remove(file: Path) -> None:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            _LOG.warning("%s: the attachment of a deleted item is still there: %s", file, error)

    def size_bytes(self) -> int:
        """Sum up the files' sizes."""
        return sum(file.stat().st_size for file in self.folder.iterdir()) if self.folder.is_dir() else 0

    def _put_away(self, ref: AttachmentRef) -> AttachmentRef:
        uri = ref.data_uri
        if uri is None or len(uri) <= self._inline_limit or not (head := _DATA_URI.match(uri)):
            return ref
        try:
            content = base64.b64decode(uri[head.end() :], validate=True)
        except binascii.Error:
            # Not what it says it is: keep it as it came rather than lose it.
            return ref
        name = hashlib.sha256(content).hexdigest()
        self._write(name, content)
        return replace(ref, data_uri=None, sha256=name, size=len(content), local_path=self._prefix + name)

    def _absolute(self, ref: AttachmentRef) -> AttachmentRef:
        if ref.local_path is None or not (stored := _STORED.fullmatch(ref.local_path)):
            return ref
        return replace(ref, local_path=str(self.folder / stored[1]))

    def _write(self, name: str, content: bytes) -> None:
        target = self.folder / name
        if target.exists():
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(target, [content])
        except OSError as error:
            raise CollectionUnwritableError(target, f"an attachment cannot be written: {error}") from error


def _with_attachments(item: MemoryItem, change: Callable[[AttachmentRef], AttachmentRef]) -> MemoryItem:
    if not any(snapshot and snapshot.blocks for snapshot in (item.input_snapshot, item.output_snapshot)):
        return item
    return replace(
        item,
        input_snapshot=_changed_snapshot(item.input_snapshot, change),
        output_snapshot=_changed_snapshot(item.output_snapshot, change),
    )


def _changed_snapshot(
    snapshot: MemoryContentSnapshot | None, change: Callable[[AttachmentRef], AttachmentRef]
) -> MemoryContentSnapshot | None:
    if snapshot is None or not snapshot.blocks:
        return snapshot
    blocks = tuple(
        replace(kept, block=replace(kept.block, attachment=change(kept.block.attachment)))
        if kept.block.attachment is not None
        else kept
        for kept in snapshot.blocks
    )
    return replace(snapshot, blocks=blocks)


def with_inline_attachments(item: MemoryItem, lost: Callable[[AttachmentRef, OSError], None]) -> MemoryItem:
    """Give the item with the attachments that a store put into files as data URIs again, as `put_away` took them.

    `lost` is told of one whose file cannot be read; its reference stays as it is.
    """

    def inline(ref: AttachmentRef) -> AttachmentRef:
        if ref.data_uri is not None or ref.local_path is None or not _in_store(ref):
            return ref
        try:
            content = Path(ref.local_path).read_bytes()
        except OSError as error:
            lost(ref, error)
            return ref
        encoded = base64.b64encode(content).decode("ascii")
        return replace(ref, data_uri=f"data:{ref.mime_type or ''};base64,{encoded}", local_path=None)

    return _with_attachments(item, inline)


def _in_store(ref: AttachmentRef) -> bool:
    """Say whether the reference is one that `bring_back` made: a file elsewhere is the author's own."""
    path = Path(ref.local_path or "")
    return ref.sha256 == path.name and _STORED.fullmatch(f"{path.parent.name}/{path.name}") is not None
