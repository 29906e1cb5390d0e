"""A store of Strands' `MemoryManager` over a memory; needs the extra `strands`.

agent = Agent(memory_manager=MemoryManager(stores=[DevmemMemoryStore(devmem.open("notes.db").scoped(user="ann"))]))
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from devmem import Hit, Memory
from devmem.adapters.hosts import agents_word, scoped_id, shown, writing
from devmem.adapters.hosts import require as _require
from devmem.messages import Message, Role

_require("strands.memory", package="strands-agents", extra="strands")

from strands.memory.types import MemoryEntry, MemoryStore

if TYPE_CHECKING:
    from strands.memory.extraction.types import ExtractionConfig
    from strands.memory.types import AddMessagesContext, SearchOptions
    from strands.types.content import Message as StrandsMessage

_HOST: Final = "strands"
_RESULTS: Final = 5
"""Number of results of a search that names none."""
_DESCRIPTION: Final = "Long-term memory: what was said and noted earlier, searched by meaning and by words."


class DevmemMemoryStore(MemoryStore):  # type: ignore[misc] # not in the environment of the type checkers
    """A memory that other programs use at the same time, as Strands searches it and writes it.

    With `extraction=True` the messages themselves are stored, without a call of a model, because the store takes them
    (`add_messages`).
    """

    def __init__(
        self,
        memory: Memory,
        *,
        name: str = "devmem",
        description: str | None = _DESCRIPTION,
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: ExtractionConfig | bool | None = None,
    ) -> None:
        """Wrap an opened memory; the caller closes it.

        Args:
            memory: a memory, or a scoped handle, which the store never leaves.
            name: name of the store, by which tools choose it.
            description: part of the tools' descriptions.
            max_search_results: maximum number of results of a search that names none; None is 5.
            writable: whether the agent may write.
            extraction: whether and when messages are stored by themselves.
        """
        self._memory = memory.scoped()
        self.name, self.description, self.max_search_results = name, description, max_search_results
        self.writable, self.extraction = writable, extraction
        self._run = uuid4().hex

    async def initialize(self) -> None:
        """Begin a run: sequence numbers of messages count from 0 again."""
        self._run = uuid4().hex

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return what answers a query, best first, with id, score and time as metadata.

        Raises:
            CollectionError: the memory cannot be read.
        """
        limit = (options or {}).get("max_search_results") or self.max_search_results or _RESULTS
        if not query.strip():
            return []
        found = await asyncio.to_thread(
            shown, _HOST, self._memory, query, lambda: self._memory.search(query, limit=limit)
        )
        return [MemoryEntry(content=hit.snippet, metadata=_metadata(hit)) for hit in found]

    async def add(self, content: str, metadata: Mapping[str, Any] | None = None) -> str:
        """Add a text and return its id; a text that is there already, with the same metadata, is kept once.

        Raises:
            ValueError: the text is blank, or the metadata are not JSON.
            CollectionError: it cannot be written.
        """
        # Strands writes again what it does not know to be written.
        named = repr((content, sorted((metadata or {}).items(), key=str)))
        item_id = scoped_id([_HOST, named], self._memory.guard.new_scope())
        with writing(_HOST, self._memory):
            source = agents_word(_HOST, self._memory)
            return await self._memory.aadd(content, id=item_id, metadata=metadata, source=source)

    async def add_messages(
        self, messages: list[StrandsMessage], context: AddMessagesContext | None = None
    ) -> list[str]:
        """Add the messages that have a text and return their ids; a batch that is sent again is kept once.

        Raises:
            CollectionError: they cannot be written.
        """
        numbers = context.sequence_numbers if context is not None else None
        made = [
            said
            for message, number in zip(messages, numbers or [uuid4().hex for _ in messages], strict=True)
            for said in _messages_of(message, f"{self._run} {number}")
        ]
        if not made:
            return []
        with writing(_HOST, self._memory):
            return await asyncio.to_thread(self._memory.add, made)


def _messages_of(message: StrandsMessage, place: str) -> Iterator[Message]:
    """Yield the results of tools in a message, and what else it says; Strands hands on results as the user's."""
    results = (block["toolResult"].get("content", ()) for block in message["content"] if "toolResult" in block)
    said = Role.USER if message["role"] == "user" else Role.ASSISTANT
    texts = ((Role.TOOL, "\n".join(map(_text, results))), (said, _text(message["content"])))
    for role, text in texts:
        if text.strip():
            # A run may count from 0 again without a new beginning: the text tells its messages from the earlier ones.
            named = f"{place} {role if role is Role.TOOL else message['role']} {text}"
            message_id = sha256(named.encode()).hexdigest()[:32]
            yield Message(text, id=message_id, role=role)


def _text(blocks: Sequence[Mapping[str, Any]]) -> str:
    """Return the texts of blocks; data of a tool's result as JSON."""
    data = (json.dumps(block["json"], ensure_ascii=False, default=str) if "json" in block else "" for block in blocks)
    texts = (block.get("text") or found for block, found in zip(blocks, data, strict=True))
    return "\n".join(filter(None, texts))


def _metadata(hit: Hit) -> dict[str, Any]:
    own = hit.item.caller_metadata
    return {**own, "id": hit.id, "score": hit.score, "time": hit.time.isoformat()}
