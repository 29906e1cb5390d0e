"""The `MemoryStore` of Pydantic AI's harness over a memory."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from anyio.to_thread import run_sync
from pydantic import JsonValue
from pydantic_ai_harness.memory import (
    MemoryConflictError,
    MemoryFile,
    MemoryMutation,
    MemoryOperation,
    MemoryOperationConflictError,
    MemorySearchMatch,
    MemorySearchResult,
)

from devmem import Memory, MemoryItem
from devmem.adapters.files import ROOT, FolderLimits, MemoryFiles
from devmem.adapters.files import MemoryFile as KeptFile
from devmem.adapters.hosts import shown, widened, writing
from devmem.errors import VersionConflictError
from devmem.stores import Provenance, SourceKind
from devmem.text import shorten

KEPT: Final = timedelta(days=30)
"""Time after which a receipt expires."""
_RECEIPT: Final = "pydantic_ai.receipt"
"""Metadata key of a receipt, and the name of its source."""


_HOST: Final = "pydantic_ai"
OPERATION: Final = "pydantic_ai.operation"
"""Metadata key of the id of the operation that wrote a version."""
METADATA: Final = "pydantic_ai.metadata"
"""Metadata key of what the application recorded with a version."""
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_MAX_METADATA: Final = 4_096
"""Maximum number of characters of the metadata of a version."""


class DevmemHarnessStore:
    """Files of the harness's `Memory` capability, in a memory that other programs use at the same time.

    ```python
    Agent(model, capabilities=[Memory(store=DevmemHarnessStore(memory), namespace=lambda run: run.deps.user)])
    ```

    A path `ann/main/MEMORY.md` is the memory file `/memories/ann/main/MEMORY.md` of `devmem.adapters.files`. It
    implements `MemoryStore`, `MetadataMemoryStore` and `SearchableMemoryStore`; a write or deletion and the receipt of
    its operation are one transaction, and receipts are kept for 30 days.
    """

    def __init__(self, memory: Memory, *, limits: FolderLimits | None = None) -> None:
        """Take the files of a memory, or of a scoped handle, which no path leaves; the caller closes it.

        Raises:
            TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
        """
        self._files = MemoryFiles(memory, limits=limits)

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        """Return a file with at most `max_chars` characters of its text; None where there is none.

        Raises:
            ValueError: the path is none, or `max_chars` is not positive.
        """
        place = _place(path)
        if max_chars <= 0:
            raise ValueError("max_chars must be positive")
        found = await run_sync(self._files.read, place)
        if found is None:
            return None
        facts: Mapping[str, Any] = found.item.metadata
        return MemoryFile(
            content=found.text[:max_chars],
            version=found.version,
            operation_id=facts.get(OPERATION),
            truncated=len(found.text) > max_chars,
            metadata=facts.get(METADATA),
        )

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        """Return what an operation did; None when it was not done.

        Raises:
            MemoryOperationConflictError: another operation has the same id.
        """
        return await run_sync(self._done, operation)

    async def write(
        self, path: str, content: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Create or replace a file, if it has the expected version; see `write_with_metadata`."""
        return await self.write_with_metadata(
            path, content, expected_version=expected_version, metadata=None, operation=operation
        )

    async def write_with_metadata(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        metadata: Mapping[str, str] | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """Create or replace a file, if it has the expected version, and record metadata with the new one.

        Raises:
            MemoryConflictError: it has another version, or is not there, or is there already.
            MemoryOperationConflictError: another operation has the same id.
            MemoryFileError: the text is too long, or there are too many files.
            ValueError: the path is none, or the metadata is too long.
        """
        _check(metadata)
        facts: dict[str, JsonValue] = {
            OPERATION: operation.id if operation else None,
            METADATA: dict(metadata) if metadata else None,
        }
        write = partial(self._files.write, _place(path), content, expected=expected_version, metadata=facts)
        return await self._once(operation, write, path, existed=expected_version is not None)

    async def delete(
        self, path: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Delete a file, if it has the expected version; None where there must be no file.

        Raises:
            MemoryConflictError: it has another version, or is not there, or is there.
            MemoryOperationConflictError: another operation has the same id.
            ValueError: the path is none.
        """
        delete = partial(self._files.delete, _place(path), expected=expected_version)
        return await self._once(operation, delete, path, existed=expected_version is not None)

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        """Return the first paths that begin with a prefix, in order.

        Raises:
            ValueError: the prefix is none, or the limit is not positive.
        """
        start = _start(prefix)
        if limit <= 0:
            raise ValueError("limit must be positive")
        found = await run_sync(lambda: self._files.paths(start, limit=limit))
        return [_path(place) for place in found]

    async def search(
        self, prefix: str, query: str, *, limit: int, max_files: int, max_chars: int, max_file_chars: int
    ) -> MemorySearchResult:
        """Return the files directly below a prefix that answer a query, by meaning and words, best first.

        Args:
            prefix: what the paths begin with.
            query: a question or words.
            limit: maximum number of files.
            max_files: maximum number of files that are counted as searched; the index covers all of them.
            max_chars: maximum number of characters of paths and snippets together.
            max_file_chars: as for stores that read files to search them; the index covers whole texts.
        """
        start = _start(prefix)
        if not query.split() or min(limit, max_files, max_chars, max_file_chars) <= 0:
            return MemorySearchResult(matches=[], scanned=0, truncated=False)
        return await run_sync(self._search, start, query, limit, max_files, max_chars)

    def _receipt_id(self, operation: MemoryOperation) -> str:
        """Return the id of the item of an operation's receipt; in another scope it is another item."""
        scope = self._files.scope
        named = json.dumps([_RECEIPT, operation.id, scope.user, scope.agent, scope.session, scope.conversation])
        return hashlib.sha256(named.encode()).hexdigest()[:32]

    def _done(self, operation: MemoryOperation | None) -> MemoryMutation | None:
        kept = self._files.memory.get(self._receipt_id(operation)) if operation is not None else None
        if operation is None or kept is None:
            return None
        facts: Any = kept.metadata[_RECEIPT]
        if facts["fingerprint"] != operation.fingerprint:
            raise MemoryOperationConflictError(f"operation id {operation.id!r} was reused with different arguments")
        return MemoryMutation(version=facts["version"], replayed=True, existed=facts["existed"])

    def _receipt(self, operation: MemoryOperation, existed: bool, made: KeptFile | None) -> MemoryItem:
        """Return the receipt of an operation: an item without text, which no search finds."""
        version, now = made.version if made else None, self._files.now()
        return MemoryItem(
            id=self._receipt_id(operation),
            content_summary="",
            metadata={_RECEIPT: {"fingerprint": operation.fingerprint, "version": version, "existed": existed}},
            created_at=now,
            expires_at=now + KEPT.total_seconds(),
            scope=self._files.scope,
            provenance=Provenance(kind=SourceKind.TOOL, name=_RECEIPT),
        )

    async def _once(
        self, operation: MemoryOperation | None, change: Callable[..., KeptFile | None], path: str, *, existed: bool
    ) -> MemoryMutation:
        """Make a change, with which the operation's receipt is stored, unless the operation was done before."""
        receipt = None if operation is None else partial(self._receipt, operation, existed)

        def changed() -> MemoryMutation:
            if (done := self._done(operation)) is not None:
                return done
            try:
                made = change(beside=receipt)
            except VersionConflictError as error:
                # Somebody else may have finished the same operation meanwhile.
                if (done := self._done(operation)) is not None:
                    return done
                raise MemoryConflictError(f"memory path {path!r} changed meanwhile; read it again") from error
            return MemoryMutation(version=made.version if made else None, replayed=False, existed=existed)

        with writing(_HOST, self._files.memory):
            return await run_sync(changed)

    def _search(self, start: str, query: str, limit: int, max_files: int, max_chars: int) -> MemorySearchResult:
        where = self._files.where(start)
        # Those in deeper folders belong to other namespaces.
        hits = shown(
            _HOST,
            self._files.memory,
            query,
            lambda: widened(
                lambda asked: self._files.memory.search(query, limit=asked, where=where),
                lambda hit: "/" not in hit.item.provenance.name.removeprefix(start),
                limit + 1,
            ),
        )
        count = sum("/" not in place.removeprefix(start) for place in self._files.paths(start))
        matches, left = [], max_chars
        for hit in hits[:limit]:
            place = hit.item.provenance.name
            room = left - len(place.removeprefix(start))
            if room <= 0:
                break
            snippet = shorten(hit.snippet, room)
            matches.append(MemorySearchMatch(path=_path(place), snippet=snippet, score=hit.score))
            left = room - len(snippet)
        return MemorySearchResult(
            matches=matches, scanned=min(count, max_files), truncated=len(matches) < len(hits) or count > max_files
        )


def _place(path: str) -> str:
    """Return the memory file of a path; raises `ValueError` for one that is none."""
    if not all(_SEGMENT.fullmatch(part) and part != "." and ".." not in part for part in path.split("/")):
        raise ValueError(f"invalid memory path: {path!r}")
    return f"{ROOT}/{path}"


def _start(prefix: str) -> str:
    """Return what the memory files below a prefix begin with; raises `ValueError` for a prefix that is none."""
    if not prefix:
        return f"{ROOT}/"
    return _place(prefix.removesuffix("/")) + ("/" if prefix.endswith("/") else "")


def _path(place: str) -> str:
    return place.removeprefix(f"{ROOT}/")


def _check(metadata: Mapping[str, str] | None) -> None:
    """Make sure that metadata can be recorded.

    Raises:
        TypeError: a key or a value is not text.
        ValueError: it is too long.
    """
    for text in (*(metadata or {}).keys(), *(metadata or {}).values()):
        if not isinstance(text, str):
            raise TypeError(f"memory metadata keys and values must be strings, not {type(text).__name__}")
    if (length := len(json.dumps(dict(metadata or {})))) > _MAX_METADATA:
        raise ValueError(f"memory metadata is {length} characters as JSON; the limit is {_MAX_METADATA}")
