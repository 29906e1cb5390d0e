"""The work that every store with a collection shares: opening it, embedding, writing, searching."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import ClassVar, Final, Literal

from pydantic import Field

from devmem.collections import Collection, CollectionInfo, Filter, SearchQuery, Unique, Weights, open_collection
from devmem.config import ConfigModel, EmbeddingConfig, IndexConfig, RetrievalConfig
from devmem.embedding import PassageEmbeddings
from devmem.errors import CollectionClosedError, CollectionError
from devmem.model.items import MemoryItem
from devmem.model.results import Hit, HitGroup, MemoryWritePayload, SearchReport, WriteOutcome
from devmem.ranking import Ranking
from devmem.reranking.stage import open_rerank_stage, ranking_of
from devmem.stores.embedding_queue import EmbeddingQueue
from devmem.stores.memory import MemoryBase, Progress
from devmem.stores.query import MemoryQuery
from devmem.stores.setup import StoreSetup
from devmem.text.analysis import mostly_unspaced

_BATCH: Final = 256
_READABLE: Final = 0.5
"""A query of which the model knows a smaller share of the words is searched by its words alone."""
_LOG: Final = logging.getLogger(__name__)


class PlaceConfig(ConfigModel):
    """Where a store's items live; a store type adds its own fields."""

    memory_path: str | None = None
    """Where the items live: a path such as `memory/store.db` (SQLite) or `memory/store.json` (DevAll's format), `auto`
    for a file of the session; absent keeps them for this process only."""
    durability: Literal["full", "normal"] = Field(default="full", json_schema_extra={"advanced": True})
    """`full` survives power loss; `normal` is faster and may lose the last writes then, but not when a process dies."""


class CollectionConfig(PlaceConfig):
    """What a store with a searchable collection can be told; a store type adds its own fields."""

    embedding: EmbeddingConfig | None = None
    """The model that makes items findable by meaning; absent searches by their text alone."""
    index: IndexConfig = Field(default_factory=IndexConfig, json_schema_extra={"advanced": True})
    """How the nearest vectors are found in a large store."""
    retrieval: RetrievalConfig = Field(default_factory=RetrievalConfig, json_schema_extra={"advanced": True})
    """What counts when the store is searched."""


class CollectionMemory(MemoryBase):
    """A store whose items live in a collection.

    A store type says what to keep of a payload (`_compose`) and may rank in its own way (`_search`).
    """

    config_model: ClassVar[type[ConfigModel]] = CollectionConfig
    unique: ClassVar[Unique] = Unique.CONTENT
    """What makes an update the same as something stored before."""

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        self._place = setup.config_as(PlaceConfig)
        # A store that says nothing of searching is searched by the defaults.
        self._searched = self._place if isinstance(self._place, CollectionConfig) else CollectionConfig()
        embedding, self._retrieval = self._searched.embedding, self._searched.retrieval
        self._rerank_stage = open_rerank_stage(
            self._retrieval.reranker, store=setup.name, base_dir=setup.base_dir, clock=setup.monotonic
        )
        self._embedder = setup.embedder(embedding) if embedding else None
        with_tokens = self._retrieval.late_interaction
        self._queue = EmbeddingQueue(self._embedder, setup.monotonic, tokens=with_tokens) if self._embedder else None
        self._reads_english_only = embedding is not None and embedding.provider == "minilm"
        self._opened: Collection | None = None
        self._opening = Lock()
        self._closed = False

    @abstractmethod
    def _compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        """Make the item to store, or the outcome that says why there is none."""

    @property
    def collection(self) -> Collection:
        """The place where the items are; opened by `load`, or on first use."""
        return self._place_opened(claim=True)

    def _place_opened(self, *, claim: bool) -> Collection:
        with self._opening:
            if self._opened is None:
                if self._closed:
                    raise CollectionClosedError(self.name, "the store was closed.")
                self._opened = self._open(claim=claim)
            return self._opened

    def _open(self, *, claim: bool) -> Collection:
        return open_collection(
            self.setup.location(self._place.memory_path),
            model=self._embedder.identity if self._embedder and claim else None,
            store_type=self.setup.store_type,
            durability=self._place.durability,
            index=self._searched.index,
            clock=self.setup.clock,
        )

    def load(self) -> None:
        """Open the collection."""
        _ = self.collection

    def save(self) -> None:
        """Embed what waits, if the provider answers again; everything else is durable already."""
        if self._queue is not None:
            self._queue.catch_up(self.collection)

    def _search(self, query: MemoryQuery) -> list[Hit]:
        return list(self._report(query, explain=False).hits)

    def _explain(self, query: MemoryQuery) -> SearchReport:
        return super()._explain(query) if self._ranks_itself() else self._report(query, explain=True)

    def _conversations(self, query: MemoryQuery, hits_each: int) -> list[HitGroup]:
        if self._ranks_itself() or self._rerank_stage is not None:
            return super()._conversations(query, hits_each)
        return self.collection.conversations(self._search_query(query, query.top_k), hits_each=hits_each)

    def _ranks_itself(self) -> bool:
        """Say whether the store type has a ranking of its own, which the collection cannot explain."""
        return type(self)._search is not CollectionMemory._search  # noqa: SLF001 - one of its own class

    def _report(self, query: MemoryQuery, *, explain: bool) -> SearchReport:
        """Search by all the evidence, and let the reranker read the best."""
        search_query = self._search_query(query, self._searched_for(query.top_k))
        report = (
            self.collection.explain(search_query)
            if explain
            else SearchReport(hits=tuple(self.collection.search(search_query)))
        )
        return self._looked_at_again(query, report)

    def _searched_for(self, top_k: int) -> int:
        """How many hits to search for, where `top_k` are search_query for: a reranker reads more than that."""
        return self._rerank_stage.candidates(top_k) if self._rerank_stage else top_k

    def _looked_at_again(self, query: MemoryQuery, report: SearchReport) -> SearchReport:
        """Have the reranker, if there is one, read the best of what was found; gives `top_k` hits."""
        if self._rerank_stage is None:
            return replace(report, hits=report.hits[: query.top_k])
        return self._rerank_stage.at(report, query.text, query.top_k)

    @property
    def ranking(self) -> Ranking:
        """How hits are ranked, as the `retrieval:` block says."""
        return ranking_of(self._retrieval)

    def _hybrid(
        self, query: MemoryQuery, limit: int, weights: Weights | None = None, ranking: Ranking | None = None
    ) -> list[Hit]:
        """Search by all the evidence, as `ranking` says; with `weights`, by meaning and words alone."""
        return self.collection.search(self._search_query(query, limit, weights, ranking))

    def _search_query(
        self, query: MemoryQuery, limit: int, weights: Weights | None = None, ranking: Ranking | None = None
    ) -> SearchQuery:
        if self._queue is not None:
            self._queue.catch_up(self.collection, batches=1)
        tokens = query.embedding.tokens_by(self._embedder) if self._embedder else None
        unreadable = tokens is not None and tokens.known < _READABLE
        return SearchQuery(
            text=query.text,
            vector=query.embedding.by(self._embedder) if self._embedder and not unreadable else None,
            tokens=None if unreadable else tokens,
            limit=limit,
            min_similarity=query.similarity_threshold,
            where=query.where,
            weights=weights,
            ranking=ranking or self.ranking,
            candidates=self._retrieval.candidates,
            now=query.asked_at,
        )

    def _update(self, payload: MemoryWritePayload) -> WriteOutcome:
        item = self._compose(payload)
        if isinstance(item, WriteOutcome):
            return item
        return self._store([item], self.unique)[0]

    def _cap(self) -> int | None:
        """How many items to keep; the oldest go first. None keeps all."""
        return None

    def _store(
        self, items: Sequence[MemoryItem], unique: Unique, known: Mapping[str, PassageEmbeddings] | None = None
    ) -> list[WriteOutcome]:
        """Store items, with their embeddings where these are known (by id), and embedded otherwise."""
        embeddings = dict(known or {})
        if self._queue is not None:
            self._mention_language(items)
            self._queue.catch_up(self.collection)
            embeddings |= self._queue.encode([item for item in items if item.id not in embeddings])
        outcomes = self.collection.add(items, unique=unique, embeddings=embeddings)
        if (keep := self._cap()) is not None:
            self._trim_to(keep)
        return outcomes

    def _trim_to(self, keep: int) -> None:
        try:
            self.collection.trim(keep=keep)
        except CollectionError as error:
            # The items are stored: what failed is done after the next write.
            _LOG.warning("memory store %r keeps more than %d items for now: %s", self.name, keep, error)

    def _mention_language(self, items: Sequence[MemoryItem]) -> None:
        """Say once that the model cannot read what is stored."""
        if self._reads_english_only and any(mostly_unspaced(item.content_summary) for item in items):
            self._reads_english_only = False
            _LOG.warning(
                "memory store %r: minilm reads English only; texts in Chinese, Japanese, Korean or Thai are found by "
                "their words. An `openai` or `local` multilingual model finds them by meaning too.",
                self.name,
            )

    def add(self, items: Sequence[MemoryItem], progress: Progress | None = None) -> list[WriteOutcome]:
        """Store finished items, some hundreds at a time; each keeps its id and is stored once."""
        outcomes: list[WriteOutcome] = []
        for start in range(0, len(items), _BATCH):
            outcomes += self._store(self._with_known_embeddings(items[start : start + _BATCH]), Unique.ID)
            if progress:
                progress(len(outcomes))
        return outcomes

    def _with_known_embeddings(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Give the items that are stored already with the embedding they have there, so that none is made anew."""
        if self._queue is None:
            return list(items)
        known = {item.id: item for item in self.collection.get([item.id for item in items])}
        return [
            replace(item, embedding=known[item.id].embedding)
            if item.id in known and known[item.id].content_hash == item.content_hash
            else item
            for item in items
        ]

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Give the items that are there, in the order of `ids`."""
        return self.collection.get(ids)

    def recent(self, limit: int, where: Filter | None = None) -> list[MemoryItem]:
        """Give the items stored last, newest first."""
        return self.collection.recent(limit, where)

    def scan(self, where: Filter | None = None) -> Iterator[MemoryItem]:
        """Give every item that matches, in the order in which they were stored, a few at a time."""
        return self.collection.scan(where)

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Forget the named or the matching items."""
        return self.collection.delete(ids=ids, where=where)

    def clear(self) -> int:
        """Forget everything."""
        return self.collection.clear()

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Forget all but the newest items, and those that are too old."""
        return self.collection.trim(keep=keep, stored_before=stored_before)

    def count_memories(self, where: Filter | None = None) -> int:
        """Count the items that a search could find."""
        return self.collection.count(where)

    def info(self) -> CollectionInfo:
        """Say where the items are and how much there is."""
        return self.collection.info()

    def reindex(self, progress: Progress | None = None, *, force: bool = False) -> int:
        """Embed every item anew with the model that the configuration names now; gives how many were embedded.

        Interrupted, it goes on where it stopped: what has no embedding yet waits for it. Where this model made the
        embeddings already, only what waits is embedded, unless `force` makes all of them anew.

        Raises:
            EmbeddingError: the provider does not answer; the items are found by their text meanwhile.
        """
        if self._embedder is None or self._queue is None:
            return 0
        self._embedder.embed(["probe"])
        collection = self._place_opened(claim=False)
        identity = self._embedder.identity
        if force or collection.info().embedding != identity.name:
            collection.replace_model(identity.name, identity.dimension)
        return self._queue.catch_up(collection, progress)

    def close(self) -> None:
        """Release the collection; one that is being opened meanwhile is released too."""
        with self._opening:
            self._closed = True
            if self._opened is not None:
                self._opened.close()
                self._opened = None
