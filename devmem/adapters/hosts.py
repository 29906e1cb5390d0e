"""Parts that adapters of several frameworks share.

Origin of texts, recalling for a prompt, items of messages; an embedding model that knows which text a vector is of; and
documents, whose metadata stand beside each other, the rest under the host's key.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from datetime import datetime
from importlib.util import find_spec
from itertools import islice, zip_longest
from typing import Any, Final, ParamSpec, TypeVar, Unpack
from uuid import uuid4

import numpy as np
from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_jsonable_python

from devmem import Filter, Hit, Memory, MemoryContentSnapshot, MemoryItem, Scope, acting_as, asking_at
from devmem.errors import DevmemError, EmbeddingError, MissingExtraError
from devmem.memory import ScopeParts, record_recall
from devmem.messages import Message, Role, message_to_item
from devmem.models import checked_vector
from devmem.storage import SearchQuery, Unique, Weights, one_of, present, starts_with
from devmem.stores import TRUST, CollectionMemory, Embedder, Provenance, SourceKind, Vector
from devmem.text import shorten

SUMMARY_LENGTH: Final = 1_000
"""Characters of a text that is shown whole in lists."""
_WIDEN: Final = 4
"""Factor by which a search is widened until enough of its hits are admitted."""
POOL: Final = 200
"""Number of candidates of a search by default."""
_ROLES: Final[Mapping[str, Role]] = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "model": Role.ASSISTANT,
    "chatbot": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
}
_LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")
S = TypeVar("S", bound="Sequence[Hit]")
P = ParamSpec("P")


def require(module: str, *, package: str, extra: str) -> None:
    """Make sure that an adapter's framework is installed, before the adapter imports it.

    Args:
        module: a module of the framework, such as `mcp` or `langgraph.store.base`.
        package: name of the framework's distribution.
        extra: extra of devmem that installs it.

    Raises:
        MissingExtraError: it is not installed; the error names the command that installs it.
    """
    try:
        found = find_spec(module)
    except ModuleNotFoundError:
        # A package above it does not exist.
        found = None
    if found is None:
        raise MissingExtraError(feature=f"devmem's adapter for {package}", package=package, extra=extra)


def collection_of(memory: Memory, user: str) -> CollectionMemory:
    """Return the store of a memory, for a `user` such as "a session" that needs a collection.

    Raises:
        TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
    """
    if not isinstance(memory.store, CollectionMemory):
        raise TypeError(f"{user} needs a collection, which {memory.store.setup.store_type!r} has not")
    return memory.store


def _writer(host: str, memory: Memory) -> str:
    """Return the agent whose handle a memory is, or else the host."""
    return memory.guard.new_scope().agent or host


def writing(host: str, memory: Memory) -> AbstractContextManager[None]:
    """Have changes in the block recorded as those of the agent whose handle it is, or else of the host.

    Whoever is named around the block goes before: a workflow's node, a command, `devmem.acting_as`.
    """
    return acting_as(_writer(host, memory), by_default=True)


def agents_word(host: str, memory: Memory) -> Provenance:
    """Return the origin of a text that a model, or the program around it, decided to keep.

    It is an agent's word, trusted as such (0.8), whoever the memory belongs to: the user did not say it. Messages have
    the origin of their roles instead: the user's 1, the agent's 0.8, a tool's result 0.4.
    """
    return Provenance(kind=SourceKind.NODE, name=_writer(host, memory))


AGENT_TRUST: Final = TRUST[SourceKind.NODE]
"""Trust of what an agent keeps, see `agents_word`."""


def role_of(role: object) -> Role:
    """Return the role of a host's name of one; unknown ones, such as `function`, are tools'."""
    return _ROLES.get(str(getattr(role, "value", role)), Role.TOOL)


def last_said(said: Sequence[tuple[object, str]]) -> int | None:
    """Return the place of the user's last message that has a text, of roles and texts; None where there is none."""
    asked = (at for at, (role, text) in enumerate(said) if role_of(role) is Role.USER and text.strip())
    return max(asked, default=None)


def shown(host: str, memory: Memory, query: str, search: Callable[[], S], **scope: Unpack[ScopeParts]) -> S:
    """Carry out a search for an agent of the host and return its hits, which are recorded as shown.

    Recorded where the memory was opened from a workflow with `record_recalls`; see `record_recall`.

    Args:
        host: name of the adapter.
        memory: the handle that is searched.
        query: the text that is searched for; empty where it is a vector.
        search: returns the hits that the agent is given, in their order.
        scope: whose items are searched, beside what the handle reaches.
    """
    began = time.perf_counter()
    hits = search()
    record_recall(memory, query, hits, host=host, began=began, **scope)
    return hits


def recalled(
    host: str,
    memory: Memory,
    query: str,
    *,
    shown: Collection[str] = (),
    limit: int,
    token_budget: int,
    relevance: bool = True,
    asked_at: datetime | None = None,
    where: Filter | None = None,
) -> str:
    """Return the block of what answers a query, without what the prompt shows already, by its id or its text.

    It is empty where nothing relevant is stored, unless `relevance` is off. "Yesterday" counts from `devmem.asking_at`,
    or else from `asked_at`, in the days of its zone, or of the machine's if that is UTC, in which hosts note times
    whoever asks.

    A memory that fails is logged and costs the host's request nothing.
    """
    if not query.strip():
        return ""
    when = asked_at if asked_at is None or asked_at.utcoffset() else asked_at.timestamp()
    try:
        with acting_as(host, by_default=True), asking_at(when, by_default=True):
            return memory.context(
                query, limit=limit, token_budget=token_budget, shown=shown, relevance=relevance, where=where
            )
    except DevmemError as error:
        _LOG.warning("nothing is recalled: %s", error)
        return ""


def within_tags(text: str, *names: str) -> str:
    """Return a text that neither opens nor closes one of the tags that a host puts around it, nor closes another."""
    tags = "|".join(map(re.escape, names))
    return re.sub(rf"<(?=\s*(?:/|(?:{tags})\b))", "&lt;", text, flags=re.IGNORECASE)


def remember(
    host: str, memory: Memory, messages: Sequence[Message], *, session: str | None = None, history: bool = False
) -> None:
    """Remember what was said: new messages, or the conversation so far with `history`, see `Memory.add`.

    A memory that fails is logged and costs the host's request nothing.
    """
    try:
        with writing(host, memory):
            memory.add(messages, session=session, history=history)
    except DevmemError as error:
        _LOG.error("what was said is not remembered: %s", error)


def scoped_id(named: Sequence[object], scope: Scope) -> str:
    """Return the id of the item of what a host names; in another scope it is another item."""
    text = json.dumps([*named, asdict(scope)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def snapshot_of(text: str) -> tuple[str, MemoryContentSnapshot | None]:
    """Return what is shown of a text in lists, and the whole text where that is more."""
    if len(text) <= SUMMARY_LENGTH:
        return text, None
    return shorten(text, SUMMARY_LENGTH), MemoryContentSnapshot(text=text)


def kept_message(message: Message, scope: Scope, now: float, own: Mapping[str, JsonValue]) -> MemoryItem:
    """Return a new item of a message in a host's history, with the host's own metadata; `now` is its time."""
    item = message_to_item(
        replace(message, created_at=now),
        item_id=uuid4().hex,
        scope=scope,
        summary=shorten(message.content, SUMMARY_LENGTH),
        stored_at=now,
    )
    return replace(item, metadata={**item.metadata, **own})


class HostHistory:
    """One conversation as a host has it: of each message an item that searches find, and the host's form beside it."""

    def __init__(self, host: str, key: str, memory: Memory, session: str) -> None:
        """Take the part of a memory that belongs to a session; the forms are JSON text under a metadata key.

        Raises:
            TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
            ValueError: the session is blank.
        """
        self._store = collection_of(memory, "a history")
        self._host, self._key, self._memory = host, key, memory.scoped().scoped(session=session)
        self._where = self._memory.guard.matching(Filter(metadata={key: starts_with("{")}))

    def forms(self, limit: int | None = None) -> list[Any]:
        """Return the forms of the messages, oldest first: all, or the last `limit`."""
        items: Iterable[MemoryItem] = ()
        if limit is None:
            items = self._store.scan(self._where)
        elif limit:
            items = reversed(self._store.recent(limit, self._where))
        return [self._form(item) for item in items]

    def add(self, messages: Iterable[tuple[Message, object]], ids: Sequence[str | None] = ()) -> None:
        """Append messages with their forms, all of them or, after an error, none; one with an id of the host's once.

        Raises:
            TypeError: a form is not a JSON object.
        """
        scope, now = self._memory.guard.new_scope(), self._store.setup.clock()
        items: dict[str, MemoryItem] = {}
        for (message, form), named in zip_longest(messages, ids):
            if not isinstance(form, Mapping):
                raise TypeError(f"the form of a message is a JSON object, not {form!r:.60}")
            item = kept_message(message, scope, now, {self._key: json.dumps(form, ensure_ascii=False)})
            # Named by it, the message is stored once even where two runs save it at the same time.
            item = replace(item, id=scoped_id([self._host, named], scope)) if named else item
            items.setdefault(item.id, item)
        known = {item.id for item in self._store.get(list(items)) if self._where.admits(item, now)} if any(ids) else ()
        new = [item for item in items.values() if item.id not in known]
        if new:
            with writing(self._host, self._memory):
                self._store.store_items(new, unique=Unique.ID)

    def pop(self) -> Any:
        """Take the last message out and return its form; None where there is none."""
        with writing(self._host, self._memory):
            popped = self._store.pop(1, self._where)
        return self._form(popped[0]) if popped else None

    def clear(self) -> None:
        """Delete the messages permanently, with their earlier versions."""
        with writing(self._host, self._memory):
            self._store.erase(where=self._where)

    def _form(self, item: MemoryItem) -> Any:
        return json.loads(str(item.metadata[self._key]))


def nearest(memory: Memory, vector: Sequence[float], *, limit: int, where: Filter, name: str) -> list[Hit]:
    """Return the items nearest to a vector, nearest first, with the cosine as their score.

    Raises:
        EmbeddingError: the memory has no vectors, or those of another length; the error calls the vector `name`.
    """
    store = collection_of(memory, "a search by vectors")
    if store.embedder is None:
        raise EmbeddingError(
            "this memory is searched by words: open it with embedding={'provider': 'given', 'model': NAME}"
        )
    given = checked_vector(name, vector, store.info().dimension)
    asked = SearchQuery(
        vector=(given / np.linalg.norm(given)).astype(np.float32),
        limit=limit,
        where=memory.guard.matching(where),
        weights=Weights(similarity=1.0, lexical=0.0),
    )
    hits = store.collection.search(asked).hits
    return [replace(hit, score=hit.similarity) for hit in hits if hit.similarity is not None]


def widened(
    search: Callable[[int], Sequence[Hit]],
    admits: Callable[[Hit], bool],
    limit: int,
    *,
    pool: int = POOL,
    filtered: bool = False,
) -> list[Hit]:
    """Return the best `limit` hits that are admitted, in an order of which a smaller limit returns the beginning.

    Args:
        search: returns at most as many hits as it is told.
        admits: whether a hit is meant.
        limit: maximum number of hits.
        pool: number of candidates of a search, up to which a larger one continues a smaller one. Beyond, each is four
            times as large as the one before, and what it finds follows what is found already.
        filtered: whether many hits are not admitted, so that the first search is a wider one.
    """
    found: dict[str, Hit] = {}
    asked = min(_WIDEN * limit if filtered else limit, pool)
    while True:
        hits = search(asked)
        for hit in hits:
            found.setdefault(hit.item.id, hit)
        admitted = [hit for hit in found.values() if admits(hit)]
        if len(admitted) >= limit or len(hits) < asked:
            return admitted[:limit]
        asked = pool if asked < pool else _WIDEN * asked


def in_thread(method: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the async form of a method, which blocks no event loop."""

    @functools.wraps(method)
    async def awaited(*arguments: P.args, **named: P.kwargs) -> T:
        return await asyncio.to_thread(method, *arguments, **named)

    return awaited


_KEPT: Final = 10_000


class EmbeddedTexts:
    """Embeds texts as hosts ask for it, and remembers the last ones; safe to use from several threads."""

    def __init__(self, embedder: Embedder) -> None:
        """Wrap the memory's model."""
        self._embedder = embedder
        self._texts: OrderedDict[bytes, str] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, none of which is blank.

        Raises:
            EmbeddingError: the model failed.
        """
        vectors = self._embedder.embed(list(texts))
        with self._lock:
            for text, vector in zip(texts, vectors, strict=True):
                self._texts[_digest(vector)] = text
                self._texts.move_to_end(_digest(vector))
            while len(self._texts) > _KEPT:
                self._texts.popitem(last=False)
        return [vector.tolist() for vector in vectors]

    def text_of(self, vector: Sequence[float]) -> str | None:
        """Return the text that a vector was made of here; None when it was not, or long ago."""
        with self._lock:
            return self._texts.get(_digest(np.asarray(vector, dtype=np.float32)))


def _digest(vector: Vector) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(vector, dtype=np.float32).tobytes(), digest_size=16).digest()


KEY: Final = "key"
"""Metadata key of a document's id, which names it within its scope."""
_OWN: Final = "devmem."
_META: Final = "meta"
_BATCH: Final = 1000


def named(host: str, ids: Iterable[str]) -> Iterator[Filter]:
    """Yield filters that admit the host's documents of these ids, each a thousand of them."""
    left = iter(ids)
    while some := list(islice(left, _BATCH)):
        yield Filter(metadata={host: present(), KEY: one_of(*some)})


def source_of(host: str) -> Provenance:
    """Return the origin of a host's documents, which no person said and which are trusted like files (0.6)."""
    return Provenance(kind=SourceKind.FILE, name=host)


def is_reserved(name: str, host: str) -> bool:
    """Whether a name of a document's metadata means something else in a memory."""
    return name in (KEY, host) or name.startswith(_OWN)


def metadata_key(name: str, host: str) -> str:
    """Return the metadata key, or path, under which a name of a document's metadata is kept."""
    return f"{host}.{_META}.{name}" if is_reserved(name.partition(".")[0], host) else name


def kept_metadata(given: Mapping[str, Any], host: str, document: str, rest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a document's record.

    Args:
        given: the document's metadata; times become text in ISO 8601.
        host: the key of what a record cannot hold otherwise.
        document: the document's id, for errors.
        rest: that.

    Raises:
        ValueError: JSON cannot hold a value.
    """
    meta = {str(name): _json(value, document, str(name)) for name, value in given.items()}
    reserved = {name: value for name, value in meta.items() if is_reserved(name, host)}
    plain = {name: value for name, value in meta.items() if name not in reserved}
    return {**plain, host: {**rest, **({_META: reserved} if reserved else {})}}


def given_metadata(record: MemoryItem, host: str) -> dict[str, Any]:
    """Return the metadata that a document was given with."""
    plain = {name: value for name, value in record.caller_metadata.items() if not is_reserved(name, host)}
    return {**plain, **rest_of(record, host).get(_META, {})}


def rest_of(record: MemoryItem, host: str) -> Mapping[str, Any]:
    """Return what is kept under the host's key; empty for a record that is no document of the host."""
    found = record.metadata.get(host)
    return found if isinstance(found, Mapping) else {}


def _json(value: Any, document: str, name: str) -> Any:
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError as error:
        raise ValueError(f"document {document!r}: JSON cannot hold {name!r}: {error}") from error
