"""From files to items, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from pydantic import JsonValue

from devmem import MemoryContentSnapshot, MemoryItem, Scope
from devmem.collections import version_hash
from devmem.stores import TRUST, Provenance, SourceKind, shorten

VERSION: Final = "file_version"
"""Metadata key of a text that every write changes, so that no two versions of a file are the same."""
PARTS: Final = ("user", "agent", "session", "conversation")
"""Parts of a scope that tell files of the same path apart."""
_SUMMARY: Final = 1_000
"""Characters of a text that is shown whole in lists."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file that a model keeps in a memory."""

    item: MemoryItem

    @property
    def path(self) -> str:
        """Path of the file, which begins with `ROOT`."""
        return self.item.provenance.name

    @property
    def text(self) -> str:
        """The whole text."""
        kept = self.item.input_snapshot
        return self.item.content_summary if kept is None else kept.text

    @property
    def version(self) -> str:
        """Version that a change can expect; no two writes make the same one."""
        return version_hash(self.item)

    @property
    def size(self) -> int:
        """Number of bytes in UTF-8."""
        return len(self.text.encode("utf-8", "surrogatepass"))


def file_id(path: str, scope: Scope) -> str:
    """Return the id of the item of a path; in another scope it is another item."""
    named = json.dumps(["file", path, *(getattr(scope, part) for part in PARTS)])
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def new_file(path: str, text: str, scope: Scope, now: float) -> MemoryItem:
    """Return the item of a new file; `now` is in seconds since the epoch."""
    empty = MemoryItem(
        id=file_id(path, scope),
        content_summary="",
        created_at=now,
        scope=scope,
        provenance=Provenance(kind=SourceKind.FILE, name=path),
        # A model wrote it, as it writes whatever else an agent concludes.
        trust=TRUST[SourceKind.NODE],
    )
    return with_text(empty, text, now)


def with_text(item: MemoryItem, text: str, now: float) -> MemoryItem:
    """Return the next version of a file, with another text."""
    summary = shorten(text, _SUMMARY) or item.provenance.name
    snapshot = MemoryContentSnapshot(text=text)
    return _rewritten(replace(item, content_summary=summary, input_snapshot=snapshot, content_hash=""), now)


def with_metadata(item: MemoryItem, values: Mapping[str, JsonValue]) -> MemoryItem:
    """Return an item with some values set; None takes a key out."""
    merged = {**item.metadata, **values}
    return replace(item, metadata={key: value for key, value in merged.items() if value is not None})


def moved(item: MemoryItem, path: str, scope: Scope, now: float) -> MemoryItem:
    """Return the item of a file under another path."""
    provenance = replace(item.provenance, name=path)
    return _rewritten(replace(item, id=file_id(path, scope), provenance=provenance), now)


def ended(item: MemoryItem, now: float) -> MemoryItem:
    """Return the last version of a file, which is not there from `now` on.

    It can be expected to replace another version, in one transaction with other writes, as a deletion cannot.
    """
    return replace(item, expires_at=now)


def _rewritten(item: MemoryItem, now: float) -> MemoryItem:
    return replace(item, created_at=now, embedding=None, metadata={**item.metadata, VERSION: uuid4().hex})
