"""A store whose items live in a collection: what such stores share, and the verbs that a store type supplies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from devmem.collections import Collection, Filter, SearchQuery, Unique, Weights, file_of, open_collection
from devmem.collections.location_report import examine_location
from devmem.config import ConfigModel
from devmem.embedding import CombinedEmbedder, Embedder, PassageEmbeddings
from devmem.model.file_report import FileReport
from devmem.model.items import MemoryItem
from devmem.model.results import HitGroup, MemoryWritePayload, SearchReport, WriteOutcome
from devmem.ranking import Ranking
from devmem.reranking.stage import open_rerank_stage
from devmem.stores.collection_config import CollectionConfig, PlaceConfig
from devmem.stores.collection_items import CollectionItems
from devmem.stores.collection_searcher import CollectionSearcher
from devmem.stores.collection_writer import CollectionWriter
from devmem.stores.conversation_groups import best_conversations, deepened
from devmem.stores.embedding_queue import EmbeddingQueue
from devmem.stores.expiry import Expiry
from devmem.stores.item_fields import ItemFields
from devmem.stores.lazy_collection import LazyCollection
from devmem.stores.memory import Progress
from devmem.stores.payload_items import skipped
from devmem.stores.query import MemoryQuery
from devmem.stores.readability import Readability
from devmem.stores.retention_config import ExpiryConfig, RetentionConfig
from devmem.stores.setup import StoreSetup
from devmem.stores.unlabelled_check import UnlabelledCheck

_BATCH: Final = 256


class CollectionMemory(CollectionItems):
    """A store whose items live in a collection.

    A store type supplies `compose`: what to keep of a payload. It may supply `rank` (an order of its own), `capacity`
    (how many items to keep) and `unique` (what makes an item a duplicate).

    Items whose embedding could not be made wait for it, and are found by their words. They are embedded with the next
    write, by `save` and by `reindex`; a search writes nothing.
    """

    config_model: ClassVar[type[ConfigModel]] = CollectionConfig
    unique: ClassVar[Unique] = Unique.CONTENT
    """When an update is a duplicate of a stored item."""

    busy_timeout: float = 30.0
    """Seconds to wait for another process's write."""

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        self._place = setup.config_as(PlaceConfig)
        # A store without these options is searched by the defaults.
        self._options = self._place if isinstance(self._place, CollectionConfig) else CollectionConfig()
        self._limits = setup.config if isinstance(setup.config, RetentionConfig) else RetentionConfig()
        lifetime = setup.config.lifetime if isinstance(setup.config, ExpiryConfig) else None
        self._expiry = Expiry(ttl=lifetime, retention=self._limits.retention)
        self._rerank_stage = open_rerank_stage(
            self._options.retrieval.reranker, store=setup.name, base_dir=setup.base_dir, clock=setup.monotonic
        )
        self._fields = ItemFields(setup.name, self._options.index.fields, clock=setup.monotonic)
        self._collection = LazyCollection(setup.name)
        self._use_model(self._configured_model())

    def _configured_model(self) -> Embedder | None:
        """Return the model of the `embedding:` block, with the token vectors of the `retrieval:` block's."""
        embedding, tokens = self._options.embedding, self._options.retrieval.tokens
        if embedding is None:
            return None
        model = self.setup.embedder(embedding)
        return model if tokens is None else CombinedEmbedder(model, self.setup.embedder(tokens))

    def _use_model(self, embedder: Embedder | None) -> None:
        retrieval, queue = self._options.retrieval, None
        if embedder is not None:
            queue = EmbeddingQueue(
                embedder,
                self.setup.monotonic,
                tokens=retrieval.late_interaction,
                readability=Readability(self.name),
            )
        self._embedder = embedder
        self._check = UnlabelledCheck(self.name, embedder, self.setup.monotonic)
        self._searcher = CollectionSearcher(retrieval, embedder=embedder, rerank_stage=self._rerank_stage)
        self._writer = CollectionWriter(self.name, queue)

    # Supplied by a store type.

    @abstractmethod
    def compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        """Return the item to store, or the outcome that says why there is none (see `skipped`)."""

    def rank(self, query: MemoryQuery) -> SearchReport | None:  # noqa: ARG002 - of a subclass
        """Answer a query in the store's own order; None (the default) leaves it to the collection.

        A store that only changes what the collection found starts from `search_collection`.
        """
        return None

    def capacity(self) -> int | None:
        """Return the maximum number of items, beyond which the oldest are deleted; None keeps all."""
        return self._limits.max_items

    # Used by a store type.

    @property
    def embedder(self) -> Embedder | None:
        """The embedding model; None where items are found by their words alone."""
        return self._embedder

    @property
    def ranking(self) -> Ranking:
        """How the collection ranks, as the `retrieval:` block says."""
        return self._searcher.ranking

    @property
    def collection(self) -> Collection:
        """The place where the items are; opened by `load`, or on first use."""
        return self._collection.get(self.open_collection)

    @property
    def is_open(self) -> bool:
        """Whether the collection is open."""
        return self._collection.is_open

    def open_collection(self, *, claim: bool = True) -> Collection:
        """Open the place that the configuration names.

        Args:
            claim: record the model and the fields, refuse another model; without it any collection opens, for words.

        Raises:
            EmbeddingMismatchError: another model made the collection's embeddings.
            CollectionError: it cannot be opened.
        """
        collection = open_collection(
            self.setup.location(self._place.memory_path),
            model=self._embedder.identity if self._embedder and claim else None,
            store_type=self.setup.store_type,
            name=self.setup.name,
            durability=self._place.durability,
            index=self._options.index,
            clock=self.setup.clock,
            busy_timeout=self.busy_timeout,
            history_days=self._place.history_days,
        )
        return self._fields.claimed(collection) if claim else collection

    def show(self, view: Collection) -> None:
        """Take a view in the place of the collection; called once, on a new instance of the store.

        Raises:
            NoVersionsError: what the store knows is not in its collection alone.
        """
        self._collection.get(lambda: view)

    def search_collection(self, query: MemoryQuery) -> SearchReport:
        """Search by all signals, as the `retrieval:` block says, with the reranker that it names."""
        self._check.settle(self.collection)
        return self._searcher.run(self.collection, query)

    def search_query(
        self, query: MemoryQuery, *, limit: int, weights: Weights | None = None, ranking: Ranking | None = None
    ) -> SearchQuery:
        """Return the query that the collection is searched with, the embedding included.

        Args:
            query: the store's query.
            limit: maximum number of hits.
            weights: rank by meaning and words alone, with these weights.
            ranking: replaces the ranking of the `retrieval:` block.
        """
        self._check.settle(self.collection)
        return self._searcher.query(query, limit=limit, weights=weights, ranking=ranking)

    def search_depth(self, top_k: int) -> int:
        """Return the number of hits to search for before `rerank`, where `top_k` are wanted."""
        return self._searcher.depth(top_k)

    def rerank(self, query: MemoryQuery, report: SearchReport) -> SearchReport:
        """Have the configured reranker, if there is one, read the best hits; keep `query.top_k`."""
        return self._searcher.rerank(query, report)

    def store_items(
        self,
        items: Sequence[MemoryItem],
        *,
        unique: Unique | None = None,
        embeddings: Mapping[str, PassageEmbeddings] | None = None,
        expected: Mapping[str, str | None] | None = None,
        absent: Filter | None = None,
    ) -> list[WriteOutcome]:
        """Embed and store items, and trim the store to its capacity.

        Args:
            items: the items, all stored in one transaction.
            unique: what makes an item a duplicate; None takes the store type's.
            embeddings: embeddings that are known, by the items' ids; the others are made.
            expected: versions that are to be replaced, by the items' ids; see `Collection.add`.
            absent: filter that no stored item may match; see `Collection.add`.

        Raises:
            CollectionError, VersionConflictError: nothing was stored.
        """
        self._check.settle(self.collection)
        items = self.with_fields(items)
        # What replaces a version that the caller knows keeps the expiry that the caller says.
        known = {item_id for item_id, version in (expected or {}).items() if version is not None}
        stamped = {item.id: item for item in self.stamped([item for item in items if item.id not in known])}
        items = [stamped.get(item.id) or self._expiry.limited(item) for item in items]
        now = self.setup.clock()
        too_old = [self._expiry.has_passed(item, now) for item in items]
        current = [item for item, is_too_old in zip(items, too_old, strict=True) if not is_too_old]
        rule = unique or self.unique
        written = self._writer.write(
            self.collection, current, unique=rule, embeddings=embeddings, expected=expected, absent=absent
        )
        self._keep_within_limits()
        left = iter(written)
        return [skipped("older than the store's `retention`") if is_too_old else next(left) for is_too_old in too_old]

    def stamped(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return items as `store_items` stores them, with the store's fields, and the expiry of its lifetimes."""
        return self._expiry.stamped(self.with_fields(items), self.setup.clock(), self.collection.get)

    def _keep_within_limits(self) -> None:
        """Delete what is more than the store's capacity, and what is older than its retention."""
        keep, stored_before = self.capacity(), self._expiry.oldest(self.setup.clock())
        if keep is not None or stored_before is not None:
            self._writer.trim(self.collection, keep=keep, stored_before=stored_before)

    def stored_embeddings(self, items: Sequence[MemoryItem]) -> Mapping[str, PassageEmbeddings]:
        """Return the embeddings, by id, of those items that are stored with the same content already."""
        return self._writer.stored_embeddings(self.collection, self.with_fields(items))

    def with_fields(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return items as they are searched here: one that names no fields gets those of the store."""
        return self._fields.stamped(items, lambda: self.collection)

    def search_by_words(self) -> None:
        """Go on without the embedding model, as where the collection's embeddings are another model's."""
        self._use_model(None)

    def load(self) -> None:
        """Open the collection, and finish an erasure that was interrupted."""
        _ = self.collection
        self.finish_erasure()

    def save(self) -> None:
        """Embed the items that wait for it, if the provider answers again, and delete those that are too old.

        Embeddings of another model that stand in a file are left to the next write, so that reading replaces none.
        """
        self._check.settle(self.collection)
        if not self._check.keeps_vectors(self.collection):
            self._writer.embed_waiting(self.collection)
        self._keep_within_limits()

    def find(self, query: MemoryQuery) -> SearchReport:
        """Answer in the store's own order, or else in the collection's."""
        ranked = self.rank(query)
        return self.search_collection(query) if ranked is None else ranked

    def find_conversations(self, query: MemoryQuery, hits_each: int) -> list[HitGroup]:
        """Rank conversations by all that the collection knows of them; by their best hits where others order those."""
        deep = deepened(query)
        report = self.rank(deep)
        if report is None and not self._searcher.reranks:
            return self.collection.conversations(self.search_query(query, limit=query.top_k), hits_each=hits_each)
        if report is None:
            report = self.search_collection(deep)
        return best_conversations(report, limit=query.top_k, hits_each=hits_each)

    def update(self, payload: MemoryWritePayload) -> WriteOutcome:
        """Store what a finished node said; durable when it returns."""
        item = self.compose(payload)
        return item if isinstance(item, WriteOutcome) else self.store_items([item])[0]

    def add(
        self,
        items: Sequence[MemoryItem],
        progress: Progress | None = None,
        *,
        embeddings: Mapping[str, PassageEmbeddings] | None = None,
        expected: Mapping[str, str | None] | None = None,
    ) -> list[WriteOutcome]:
        """Store finished items, some hundreds at a time; each keeps its id and is stored once.

        Args:
            items: the items.
            progress: is called after each part.
            embeddings: those that the store's own model made already, by the items' ids.
            expected: versions that are to be replaced, by the items' ids; see `Collection.add`.

        Raises:
            VersionConflictError: another version is stored; of the part in which it is nothing was stored.
        """
        outcomes: list[WriteOutcome] = []
        for start in range(0, len(items), _BATCH):
            part = items[start : start + _BATCH]
            known = {**self.stored_embeddings(part), **(embeddings or {})}
            outcomes += self.store_items(part, unique=Unique.ID, embeddings=known, expected=_of(part, expected))
            if progress:
                progress(len(outcomes))
        return outcomes

    def reindex(self, progress: Progress | None = None, *, force: bool = False) -> int:
        """Embed every item with the configured model, by the configured fields; return the number embedded.

        Interrupted, it continues where it stopped: items without an embedding wait for it. Where this model made the
        embeddings already, only waiting items are embedded, unless `force` replaces all of them.

        Raises:
            EmbeddingError: the provider does not answer; the items are found by their text meanwhile.
        """
        collection = self._fields.reindexed(self._collection.get(lambda: self.open_collection(claim=False)))
        if self._embedder is None:
            return 0
        self._embedder.embed(["probe"])
        identity = self._embedder.identity
        if force or collection.info().embedding != identity.name:
            collection.replace_model(identity.name, identity.dimension)
        self._check.settle(collection)
        return self._writer.embed_waiting(collection, progress, at_once=True)

    def examine(self) -> Iterable[FileReport]:
        """Report on the collection's file; a store type with further files adds theirs."""
        return examine_location(self.setup.location(self._place.memory_path))

    def files(self) -> Iterable[Path]:
        """Return the collection's file with those beside it; a store type with further files adds theirs."""
        file = None if (place := self.setup.location(self._place.memory_path)) is None else file_of(place)
        return [Path(f"{file}{suffix}") for suffix in ("", "-wal", "-shm", ".faiss", ".files")] if file else []

    def close(self) -> None:
        """Release the collection; one that is being opened meanwhile is released too."""
        self._collection.close()


def _of(items: Sequence[MemoryItem], expected: Mapping[str, str | None] | None) -> Mapping[str, str | None] | None:
    """Return the expected versions of some items; None where none is expected of any."""
    return {item.id: expected[item.id] for item in items if item.id in expected} if expected else None
