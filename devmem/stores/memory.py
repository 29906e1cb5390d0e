"""The contract of a store type."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeVar

from devmem import telemetry
from devmem.config.agent import ChatConfig, ViewConfig
from devmem.config.base import ConfigModel
from devmem.config.store import EmbeddingConfig, EncryptionConfig
from devmem.encryption.files import unlock
from devmem.encryption.keys import protect
from devmem.errors import PluginError
from devmem.forks import follow_forks
from devmem.model.border import clean_fields
from devmem.model.caller import Caller
from devmem.model.conditions import Order
from devmem.model.filters import Filter, event_key
from devmem.model.items import (
    LEAST_TRUST,
    MemoryContentSnapshot,
    MemoryItem,
    is_pinned,
    is_quarantined,
)
from devmem.model.results import (
    FileReport,
    Hit,
    HitGroup,
    MemoryWritePayload,
    SearchReport,
    WriteOutcome,
    WriteStatus,
)
from devmem.model.twins import as_async
from devmem.models.chat import ChatModel
from devmem.models.chat_providers import open_chat
from devmem.models.embedder import Embedder
from devmem.models.embedding_providers import open_embedder
from devmem.search.merging import by_conversation
from devmem.storage.erasure import EraseRequest, EraseResult, Residue, descendants
from devmem.storage.opening import file_of
from devmem.storage.protocol import CollectionInfo
from devmem.storage.writing import check_deletion
from devmem.stores.query_embedding import QueryEmbedding
from devmem.stores.recalls import RecallRecorder
from devmem.stores.staleness import judged, judged_groups
from devmem.text.files import expanded

if TYPE_CHECKING:
    from devmem.models.summarizer import Summarizer


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuery:
    """A query to one store."""

    text: str
    """The user's or the previous node's words."""
    limit: int = 3
    """Maximum number of hits, or of conversations."""
    similarity_threshold: float = -1.0
    """Least cosine similarity; an item that was found by its text alone, without an embedding, has none and passes."""
    min_relevance: float | None = None
    """Least score of the search, before any reranker; None is that of the store's `retrieval:` block."""
    agent_role: str = ""
    """The agent's system prompt."""
    caller: Caller = field(default_factory=Caller)
    """The agent that asks."""
    view: ViewConfig | None = None
    """Part of a global memory that is read; None takes the store's own, and other stores have none."""
    snapshot: MemoryContentSnapshot | None = None
    """The query with its multimodal blocks."""
    where: Filter = field(default_factory=Filter)
    asked_at: datetime | float | None = None
    """Time of the question, which "last week" is relative to; None means now. Days are those of a `datetime`'s zone, or
    for seconds since the epoch of the machine's."""
    collapse: bool | None = None
    """Whether of hits that say the same only the best is returned; None is as the store's `retrieval:` block says."""
    only_relevant: bool = False
    """Whether nothing is returned where nothing in the store has to do with the text; see `devmem.search.silence`."""
    explain: bool = False
    """Report what was cut and why, and what the filter left out; this takes longer."""
    embedding: QueryEmbedding = field(default=None)  # type: ignore[assignment]
    """Shared by all stores that get the same query; made from the text where it is absent."""

    def __post_init__(self) -> None:
        clean_fields(self, "text")
        if self.embedding is None:
            object.__setattr__(self, "embedding", QueryEmbedding(self.text))


C = TypeVar("C", bound=ConfigModel)


def no_other_stores(name: str) -> MemoryBase:
    """Refuse to open a store by its name: outside a workflow there are no others.

    Raises:
        PluginError: always.
    """
    raise PluginError(f"the store {name!r} is of a workflow: declare the store that is made of it there, too")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSetup:
    """Arguments of a store type's factory; the configuration in it is never changed."""

    name: str
    store_type: str
    config: ConfigModel
    """An instance of the store type's own configuration model."""
    base_dir: Path = field(default_factory=Path.cwd)
    """Where relative paths start: the workflow file's folder."""
    session_dir: Path | None = None
    """Where the files of `auto` paths are; None keeps such a store in memory."""
    open_embedder: Callable[[EmbeddingConfig], Embedder] = open_embedder
    open_chat: Callable[[ChatConfig], ChatModel] = open_chat
    """Opens the chat model that a store's `llm:` block names."""
    service_client: object = None
    """Client of the service behind the store that the caller made and closes; None has the store make its own."""
    clock: Callable[[], float] = time.time
    """The wall clock, in seconds since the epoch."""
    monotonic: Callable[[], float] = time.monotonic
    """Seconds of a clock that is never set, for backoff: a jump of the wall clock must not prolong a wait."""

    recalls: RecallRecorder | None = None
    """Records what hosts are shown of the store; None records nothing."""
    open_store: Callable[[str], MemoryBase] = no_other_stores
    """Makes another store of the workflow by its name, for a store that composes others, which loads and closes it.

    A configuration whose property `composes` returns the names has them checked with the workflow."""

    def __post_init__(self) -> None:
        block: EncryptionConfig | None = getattr(self.config, "encryption", None)
        if block is None:
            return
        key, place = block.read_key(self.base_dir), self.location(getattr(self.config, "memory_path", None))
        if self.session_dir is not None:
            protect(self.session_dir, key)
        if place is not None and (file := file_of(place)) is not None:
            unlock(Path(file), key)

    def config_as(self, model: type[C]) -> C:
        """Return the configuration as an instance of the store type's model.

        Raises:
            TypeError: the store was registered with another configuration model.
        """
        if not isinstance(self.config, model):
            raise TypeError(f"store {self.name!r} expects {model.__name__}, not {type(self.config).__name__}")
        return self.config

    def as_config(self, model: type[C]) -> C | None:
        """Return the configuration for a class that reads and writes its file itself, as DevAll's do.

        Its `memory_path` is resolved. None where it is of another model.
        """
        config = self.config
        if not isinstance(config, model):
            return None
        path: str | None = getattr(config, "memory_path", None)
        place = self.location(path)
        if path == "auto" and place is not None:
            place = str(Path(place).with_suffix(".json"))
        return config if place is None else config.model_copy(update={"memory_path": place})

    def embedder(self, config: EmbeddingConfig) -> Embedder:
        """Open the embedding model that the configuration names; a relative `model_path` starts at `base_dir`.

        Raises:
            EmbeddingError: the configuration cannot work.
        """
        folder = config.params.model_path
        if folder is not None:
            found = config.params.model_copy(update={"model_path": self.base_dir / expanded(folder)})
            config = config.model_copy(update={"params": found})
        return self.open_embedder(config)

    def location(self, path: str | None) -> str | None:
        """Resolve a configured path: None is memory, `auto` a session's file, a relative path starts at `base_dir`.

        A URL such as `postgresql://...` stays unchanged.
        """
        if not path:
            return None
        if path == "auto":
            # No two names of stores have one: bytes of UTF-8 stand for what is no letter or digit.
            parts = (char if char.isalnum() or char in "-_." else "%" + char.encode().hex("%") for char in self.name)
            name = "".join(parts)
            return str(self.session_dir / f"memory_{name}.db") if self.session_dir else None
        return path if "://" in path else str(self.base_dir / expanded(path))


_HITS_EACH: Final = 10
_LEAST_HITS: Final = 50
"""Hits to search for, for each conversation that is wanted, and at least."""


def deepened(query: MemoryQuery) -> MemoryQuery:
    """Return a query for conversations as one for enough items to find them by."""
    return replace(query, limit=max(_LEAST_HITS, _HITS_EACH * query.limit))


def best_conversations(report: SearchReport, *, limit: int, hits_each: int) -> list[HitGroup]:
    """Group hits by conversation, ordered by the best hit's score, at most `limit` groups of `hits_each` hits."""
    # A store may order its hits otherwise, as by time.
    groups = by_conversation(sorted(report.hits, key=lambda hit: -hit.score))[:limit]
    return [replace(group, hits=group.hits[:hits_each]) for group in groups]


def observed(
    store: MemoryBase, name: telemetry.MemoryOperationName, *, query: str | None = None, record: str | None = None
) -> telemetry.OperationSpan:
    """Begin an operation on a store, for OpenTelemetry; see `devmem.telemetry.memory_operation`."""
    if not telemetry.is_enabled():
        return telemetry.UNOBSERVED
    return telemetry.memory_operation(
        name, store.name, getattr(store.setup.config, "sends_to", ()), query=query, record=record
    )


def records_of(items: Iterable[MemoryItem]) -> Iterator[telemetry.Record]:
    """Yield the ids and texts of items."""
    return ((item.id, item.content_summary) for item in items)


_ANY: Final = Filter()
_IN_PROCESS: Final = "memory"
Progress = Callable[[int], None]
"""Called with the number of items done so far."""


def _trusting(query: MemoryQuery) -> MemoryQuery:
    """Return a query that leaves out what is in quarantine.

    It is asked only after another one that met such an item: every other search keeps the faster way without a filter.
    """
    return replace(query, where=replace(query.where, min_trust=max(query.where.min_trust, LEAST_TRUST)))


class WriteObserver(Protocol):
    """Follows what a store writes, as the extraction of facts does."""

    def announce(self, items: Sequence[MemoryItem]) -> list[str]:
        """Note items that are about to be stored; return the ids of those that it waits for."""
        ...

    def settle(self, announced: Sequence[str], items: Sequence[MemoryItem], outcomes: Sequence[WriteOutcome]) -> None:
        """Take what became of the items, some of which it waits for."""
        ...


class MemoryBase(ABC):
    """A memory with a policy: what it writes, what it keeps and how it answers.

    A store type supplies `load`, `update`, and `retrieve` or `answer`; one that keeps anything supplies `save` too. The
    other methods work on `contents`, unless a store type that keeps its items elsewhere overrides them. One instance
    serves all nodes and is called from several threads. Called directly, a store raises what goes wrong; the
    `MemoryManager` isolates and reports it.
    """

    config_model: ClassVar[type[ConfigModel]]
    """The model of the store's `config:` block."""
    summary: ClassVar[str] = ""
    """One line for people who choose a store type."""

    def __init__(self, setup: StoreSetup) -> None:
        self.setup = setup
        self.name = setup.name
        self.contents: list[MemoryItem] = []
        """The items in the order of their storing, of a store type that keeps them in the process."""
        self._changing = threading.RLock()
        follow_forks(self)
        own = type(self)
        if own.answer is MemoryBase.answer and own.retrieve is MemoryBase.retrieve:
            raise TypeError(f"{own.__name__} cannot answer a query: it defines neither `retrieve` nor `answer`")

    @abstractmethod
    def load(self) -> None:
        """Make the memory ready; loading twice is allowed.

        Raises:
            DevmemError: it cannot be used; the error says why and what to do.
        """

    def look(self) -> None:
        """Make the memory ready to be looked at: where the store type can, nothing is written and no model is asked."""
        self.load()

    def save(self) -> None:  # noqa: B027 - most stores are durable without it
        """Finish what could not be finished before; cheap when there is nothing to do."""

    def answer(self, query: MemoryQuery) -> SearchReport:
        """Answer a query: the hits, best first, at most `query.limit`, which is at least 1.

        With `query.explain`, the report says how the store came to them, as far as it can tell. A store type that only
        defines `retrieve` is asked for more items where the query has a filter, which leaves out some.
        """
        asked = query.snapshot or MemoryContentSnapshot(text=query.text)
        wanted = query.limit if query.where.everything() else max(query.limit, self.count())
        found = self.retrieve(query.agent_role, asked, wanted, query.similarity_threshold)
        now = self.setup.clock()
        visible = [item for item in found if query.where.admits(item, now)][: query.limit]
        return SearchReport.of([Hit(item=item, score=1 / place) for place, item in enumerate(visible, start=1)])

    @abstractmethod
    def update(self, payload: MemoryWritePayload) -> WriteOutcome:
        """Store what a finished node said; durable when it returns."""

    def add(self, items: Sequence[MemoryItem], progress: Progress | None = None) -> list[WriteOutcome]:
        """Store finished items, as an import does; each keeps its id and is stored once."""
        outcomes: list[WriteOutcome] = []
        with self._changing:
            known = {item.id for item in self.contents}
            for item in items:
                status = WriteStatus.DUPLICATE if item.id in known else WriteStatus.STORED
                if status is WriteStatus.STORED:
                    self.contents.append(item)
                    known.add(item.id)
                outcomes.append(WriteOutcome(status=status, item_id=item.id))
            self.save()
        if progress:
            progress(len(outcomes))
        return outcomes

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`."""
        known = {item.id: item for item in self._matching(None)}
        return [known[item_id] for item_id in ids if item_id in known]

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first, after passing over `offset` of them."""
        items = self._matching(where)
        if order is Order.EVENT:
            # Stable: of equal ones, the one that was stored later comes later.
            items.sort(key=event_key)
        return items[::-1][max(offset, 0) :][: max(limit, 0)]

    def _matching(self, where: Filter | None) -> list[MemoryItem]:
        """Return the items that match a filter, None for any, and have not expired, in the order of their storing."""
        now = self.setup.clock()
        return [item for item in list(self.contents) if (where or _ANY).admits(item, now)]

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items; return how many there were.

        Raises:
            FilterError: neither ids nor a filter says what to delete; see `clear`.
        """
        check_deletion(ids, where)
        return self._delete(ids, where)

    def _delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Delete the items that have one of the ids, None for any, and match the filter, None for any."""
        items = list(self.contents) if where is None else self._matching(where)
        named = None if ids is None else set(ids)
        return self._remove(item.id for item in items if named is None or item.id in named)

    def _remove(self, ids: Iterable[str]) -> int:
        gone = set(ids)
        with self._changing:
            places = [place for place, item in enumerate(self.contents) if item.id in gone]
            # In place and from the end, as `update` of a store type appends to it meanwhile.
            for place in reversed(places):
                del self.contents[place]
            self.save()
        return len(places)

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items permanently, with every version that is kept of them.

        A filter that admits everything erases everything. Return how many items there were.

        Raises:
            FilterError: there are neither ids nor a filter.
        """
        is_whole = ids is None and where is not None and where.everything()
        return self.clear() if is_whole else self.delete(ids=ids, where=where)

    def select_erasable(self, request: EraseRequest) -> list[MemoryItem]:
        """Return the items that are selected to be erased, and one version of those that are no longer there."""
        return [item for item in self._all_items() if request.admits(item)]

    def derived_from(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that were derived from some items, or from such items, as their provenance says."""
        return descendants(self._all_items(), ids)

    def _all_items(self) -> list[MemoryItem]:
        # Expired items are erased too.
        return list(self.contents) or self.recent(self.count())

    def take_states(self, source: MemoryBase) -> int:  # noqa: ARG002 - of a subclass
        """Take over what a store, whose items were copied into this one, keeps beside them; return its number.

        Taking it again changes nothing, and what is here already is kept.

        Raises:
            DevmemError: it cannot be read or written.
        """
        return 0

    def begin_erasure(self, request: EraseRequest) -> int:  # noqa: ARG002 - of a subclass
        """Record durably, where other machines open the store too, what is about to be erased.

        Whoever opens the store finishes it if this process dies; a store that is used from one machine records nothing,
        as the decision is kept beside its workflow.

        Returns:
            Number of the items that were there and are recorded.
        """
        return 0

    def rewrite_files(self) -> Sequence[Residue]:
        """Remove the bytes of what was erased from the files beside the collection; return what could not be reached.

        A store type that keeps such files overrides it.
        """
        return ()

    def erase_selected(
        self,
        request: EraseRequest,
        derived: Sequence[str] = (),
        *,
        words: Sequence[str] = (),  # noqa: ARG002 - of a subclass
        vacuum: bool = False,  # noqa: ARG002 - of a subclass
    ) -> EraseResult:
        """Erase items as far as the store reaches: a store type with its own files overrides this.

        Args:
            request: the items.
            derived: ids of more items.
            words: of the items, to be looked for in the store's files afterwards; without any none are searched.
            vacuum: rewrite a database even if nothing is found.
        """
        ids = [item.id for item in self.select_erasable(request)]
        items = self.clear() if request.is_everything else self.erase(ids=[*ids, *derived])
        place = self.info().location
        reason = "stores of this type do not report what is left in logs, caches and backups"
        return EraseResult(items=items, residues=(Residue(place=place, reason=reason),))

    def clear(self) -> int:
        """Delete everything; return how many items there were."""
        return self._remove(item.id for item in list(self.contents))

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the `keep` newest items, and those stored before a time (seconds since the epoch).

        Pinned items stay.
        """
        items = list(self.contents)
        surplus = items[: max(len(items) - keep, 0)] if keep is not None else []
        old = [item for item in items if stored_before is not None and item.created_at < stored_before]
        return self._remove(item.id for item in (*surplus, *old) if not is_pinned(item))

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""
        return len(self._matching(where))

    def count_memories(self) -> int:
        """DevAll's name for `count`."""
        return self.count()

    def info(self) -> CollectionInfo:
        """Report where the items are and how many there are."""
        return CollectionInfo(
            location=_IN_PROCESS,
            items=self.count(),
            waiting=0,
            size_bytes=0,
            embedding=None,
            dimension=None,
        )

    def close(self) -> None:  # noqa: B027 - a store that holds nothing open releases nothing
        """Release what the memory holds; closing twice is allowed."""

    def examine(self) -> Iterable[FileReport]:
        """Report on every file that the store keeps, without opening the store or changing anything.

        `devmem doctor` calls it on a store that is not loaded.
        """
        return ()

    def files(self) -> Iterable[Path]:
        """Return the files and folders that the store keeps, whether they are there yet or not; nothing is opened."""
        return ()

    def summarizer(self) -> Summarizer:
        """Return what renews stale items; without a language model it selects sentences."""
        from devmem.models.summarizer import Summarizer

        return Summarizer(None)

    def compress(self) -> int:
        """Make the memory smaller without losing what it says; return by how many items, often 0."""
        return 0

    def answer_conversations(self, query: MemoryQuery, hits_each: int) -> list[HitGroup]:
        """Rank conversations by their best hits; a store with better evidence overrides it."""
        return best_conversations(self.answer(deepened(query)), limit=query.limit, hits_each=hits_each)

    def search(self, query: MemoryQuery) -> SearchReport:
        """Return the hits for a query, best first, with every signal that ranked them; none is in quarantine.

        With `query.explain`, the report says how the store came to them, as far as it can tell.
        """
        if query.limit < 1:
            return SearchReport()
        with observed(self, "search_memory", query=query.text) as operation:
            report = self.answer(query)
            if any(is_quarantined(hit.item) for hit in report.hits):
                report = self.answer(query := _trusting(query))
            report = judged(self, query, report)
            operation.records(len(report.hits), lambda: records_of(hit.item for hit in report.hits))
        return replace(report, hits=tuple(replace(hit, store=self.name) for hit in report.hits))

    def search_conversations(self, query: MemoryQuery, *, hits_each: int = 3) -> list[HitGroup]:
        """Return the conversations that a query is about, best first: at most `query.limit`, each with its best hits.

        Items with the same conversation, session, agent and user are one conversation; an item of none is its own.
        """
        if query.limit < 1 or hits_each < 1:
            return []
        with observed(self, "search_memory", query=query.text) as operation:
            found = self.answer_conversations(query, hits_each)
            if any(is_quarantined(hit.item) for group in found for hit in group.hits):
                found = self.answer_conversations(_trusting(query), hits_each)
            found = judged_groups(self, found)
            hits = [hit for group in found for hit in group.hits]
            operation.records(len(hits), lambda: records_of(hit.item for hit in hits))
        return [replace(group, hits=tuple(replace(hit, store=self.name) for hit in group.hits)) for group in found]

    def retrieve(
        self, agent_role: str, query: MemoryContentSnapshot | str, top_k: int = 3, similarity_threshold: float = -1.0
    ) -> list[MemoryItem]:
        """Return the best items for a query; `search` returns them with their scores."""
        snapshot = MemoryContentSnapshot(text=query) if isinstance(query, str) else query
        wanted = MemoryQuery(
            text=snapshot.text,
            limit=top_k,
            similarity_threshold=similarity_threshold,
            agent_role=agent_role,
            snapshot=snapshot,
        )
        return [hit.item for hit in self.search(wanted)]

    asearch = as_async(search)
    aretrieve = as_async(retrieve)
    aupdate = as_async(update)
