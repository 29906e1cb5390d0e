"""Large attachments in files beside the collection, named by their content, instead of inside its rows."""

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

from devmem.encryption import key_of
from devmem.errors import CollectionUnwritableError
from devmem.model.items import MemoryContentSnapshot, MemoryItem
from devmem.model.message import AttachmentRef
from devmem.text.files import replace_file
from devmem.text.patterns import lazy_pattern

INLINE_LIMIT: Final = 64 * 1024
"""Characters of a data URI that stay in the row."""

# The store may have been renamed since, together with its folder.
_STORED: Final = lazy_pattern(r"[^/]*\.files/([0-9a-f]{64})")
_NAMED: Final = lazy_pattern(r"\.files/([0-9a-f]{64})")
_LOG: Final = logging.getLogger(__name__)

_DATA_URI: Final = lazy_pattern(r"data:[^,]*;base64,", re.IGNORECASE)


def stored_names(body: str) -> set[str]:
    """Return the names of the files that an item's stored body refers to."""
    return set(_NAMED.findall(body))


class AttachmentFiles:
    """The folder of a collection's large attachments; those of an encrypted collection stay in its rows."""

    def __init__(self, folder: Path, *, inline_limit: int = INLINE_LIMIT) -> None:
        self.folder, self._inline_limit = folder, inline_limit
        self._prefix = f"{folder.name}/"
        self.released: set[str] = set()
        """Names of files that a deleted item referred to; only the holder of the write lock uses it."""

    def externalize(self, item: MemoryItem) -> MemoryItem:
        """Write the item's large inline attachments to files; return the item with references to them.

        Raises:
            CollectionUnwritableError: a file cannot be written; nothing refers to it.
        """
        # Their files would be plain, for whoever gets their paths.
        return item if key_of(self.folder) is not None else map_attachments(item, self._externalize)

    def resolve(self, item: MemoryItem) -> MemoryItem:
        """Return the item with the references to its files as absolute paths."""
        return map_attachments(item, self._absolute)

    def release(self, body: str) -> None:
        """Record the files of an item that is being deleted, given its stored body."""
        self.released |= stored_names(body)

    def discard_released(self) -> None:
        """Forget the released files: the deletion was not committed."""
        self.released.clear()

    def remove_released(self, is_referenced: Callable[[str], bool]) -> None:
        """Delete the released files that no other item refers to."""
        for name in self.released:
            if not is_referenced(name):
                self._remove(self.folder / name)
        self.released.clear()

    @staticmethod
    def _remove(file: Path) -> None:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            _LOG.warning("%s: the attachment of a deleted item is still there: %s", file, error)

    def size_bytes(self) -> int:
        """Return the total size of the files."""
        return sum(file.stat().st_size for file in self.folder.iterdir()) if self.folder.is_dir() else 0

    def _externalize(self, ref: AttachmentRef) -> AttachmentRef:
        found = large_content(ref, self._inline_limit)
        if found is None:
            return ref
        content = found[1]
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


def large_content(ref: AttachmentRef, limit: int = INLINE_LIMIT) -> tuple[str, bytes] | None:
    """Return the head of a data URI and the bytes that it encodes; None where it is no longer than the limit.

    None also where it is not base64, or not in the one form that encoding the bytes again would give.
    """
    uri = ref.data_uri
    if uri is None or len(uri) <= limit or not (head := _DATA_URI.match(uri)):
        return None
    try:
        content = base64.b64decode(uri[head.end() :], validate=True)
    except binascii.Error:
        return None
    same = base64.b64encode(content).decode("ascii") == uri[head.end() :]
    return (head[0], content) if same else None


def map_attachments(item: MemoryItem, change: Callable[[AttachmentRef], AttachmentRef]) -> MemoryItem:
    """Return the item with every attachment changed."""
    given, made = item.input_snapshot, item.output_snapshot
    if not ((given is not None and given.blocks) or (made is not None and made.blocks)):
        return item
    return replace(
        item,
        input_snapshot=_map_snapshot(given, change),
        output_snapshot=_map_snapshot(made, change),
    )


def _map_snapshot(
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
    """Return the item with its externalized attachments as data URIs again.

    `lost` is called with each reference whose file cannot be read, and the error; that reference stays unchanged.
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

    return map_attachments(item, inline)


def _in_store(ref: AttachmentRef) -> bool:
    """Whether `AttachmentFiles.resolve` made the reference; a file elsewhere is the author's own."""
    path = Path(ref.local_path or "")
    return ref.sha256 == path.name and _STORED.fullmatch(f"{path.parent.name}/{path.name}") is not None
