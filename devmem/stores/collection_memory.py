"""A store whose items live in a collection: opening it, searching it, writing with embeddings, erasing."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import ClassVar, Final
from zoneinfo import ZoneInfo

from devmem.config.base import ConfigModel
from devmem.errors import (
    CollectionBusyError,
    CollectionClosedError,
    CollectionError,
    CollectionUnwritableError,
    EmbeddingError,
    Finding,
)
from devmem.model.caller import current_asked_at
from devmem.model.conditions import Order, Scalar
from devmem.model.fields import embedded_hash
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem
from devmem.model.results import (
    ERASED_BEFORE,
    Fact,
    FileReport,
    HitGroup,
    MemoryWritePayload,
    SearchReport,
    WriteOutcome,
)
from devmem.models.embedder import CombinedEmbedder, Embedder, PassageEmbeddings, TokenEmbedder
from devmem.models.given_vectors import GivenVectors
from devmem.search.query import Ranking, SearchQuery, Weights
from devmem.search.silence import relevant_hits
from devmem.storage.erasure import ErasePlan, EraseRequest, EraseResult, Residue, descendants, search_deleted
from devmem.storage.json_file import JsonCollection
from devmem.storage.location_report import examine_location
from devmem.storage.opening import STATES_SUFFIX, file_of, open_collection
from devmem.storage.protocol import Collection, CollectionInfo, StateKey
from devmem.storage.sqlite.examination import read_states
from devmem.storage.tombstones import SUFFIX
from devmem.storage.versions import VersionedCollection
from devmem.storage.writing import PreparedItem, Unique
from devmem.stores.commit_log import erase_records, erasures_file
from devmem.stores.config import CollectionConfig, ExpiryConfig, PlaceConfig, RetentionConfig
from devmem.stores.embedding_queue import EmbeddingQueue, ModelCheck
from devmem.stores.guarding import WriteGuard
from devmem.stores.items import Expiry, ItemFields, skipped, with_parent_hashes
from devmem.stores.memory import (
    MemoryBase,
    MemoryQuery,
    Progress,
    StoreSetup,
    WriteObserver,
    best_conversations,
    deepened,
)
from devmem.stores.reranking import open_rerank_stage, ranking_of
from devmem.stores.staleness import Renewal

_LOG: Final = logging.getLogger(__name__)
_SECONDS_A_WRITE: Final = 0.3
_SECONDS_A_SAVE: Final = 2.0
"""Time after which a write, or a save, leaves items that still wait for their embedding to the next one."""


class CollectionMemory(MemoryBase):
    """A store whose items live in a collection.

    A store type supplies `compose`: what to keep of a payload. It may supply `rank` (its own order), `capacity`
    (how many items to keep) and `unique` (what makes an item a duplicate).

    An item whose embedding could not be made is stored all the same, and found by its words. Such items are embedded a
    few at a time after writes, and by `save` and `reindex`; a search writes nothing.
    """

    config_model: ClassVar[type[ConfigModel]] = CollectionConfig
    unique: Unique = Unique.ID
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
        guard = self._place.guard
        self._guard = None if guard is None else WriteGuard(guard, setup, self._place.memory_path)
        self._renewal = Renewal()
        self._observer: WriteObserver | None = None
        self._opened: Collection | None = None
        self._closed = False
        self._opening = Lock()
        embedding, tokens = self._options.embedding, self._options.retrieval.tokens
        model = None if embedding is None else setup.embedder(embedding)
        self._use_model(CombinedEmbedder(model, setup.embedder(tokens)) if model and tokens else model)

    def _use_model(self, embedder: Embedder | None) -> None:
        tokens, clock = self._options.retrieval.late_interaction, self.setup.monotonic
        self._embedder = embedder
        makes_vectors = embedder is not None and not isinstance(embedder, GivenVectors)
        self._queue = EmbeddingQueue(self.name, embedder, clock, tokens=tokens) if embedder and makes_vectors else None
        self._check = ModelCheck(self.name, embedder, clock) if embedder is not None else None

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

    @property
    def collection(self) -> Collection:
        """The place where the items are; opened by `load`, or on first use.

        Raises:
            CollectionClosedError: the store was closed.
            CollectionError: it cannot be opened.
        """
        return self._open()

    def _open(self, *, claim: bool = True) -> Collection:
        """Open the collection unless it is open; it is opened once, and not again after `close`."""
        with self._opening:
            if self._opened is None:
                if self._closed:
                    raise CollectionClosedError(self.name, "the store was closed.")
                self._opened = self.open_collection(claim=claim)
            return self._opened

    @property
    def is_open(self) -> bool:
        """Whether the collection is open."""
        return self._opened is not None

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

    def show(self, view: Collection, origin: MemoryBase) -> None:  # noqa: ARG002 - of a subclass
        """Take a view of another store's collection as the own one; called once, on a new instance of the store.

        Raises:
            NoVersionsError: what the store knows is not in its collection alone.
        """
        self._opened = view

    def load(self) -> None:
        """Open the collection, and finish an erasure that was interrupted."""
        self.finish_erasure()

    def look(self) -> None:
        """Open the collection without a model; a store type whose `load` does more than that opens it as it is."""
        self.search_by_words()
        self.load()

    def open_as_it_is(self) -> None:
        """Open the collection for words, whatever it holds; nothing is written that `load` would write."""
        self.search_by_words()
        self._open(claim=False)

    def save(self) -> None:
        """Embed the items that wait for it, if the provider answers again, and delete those that are too old.

        Embeddings of another model that stand in a file are left to the next write, so that reading replaces none.
        """
        if self._queue is not None and self._check is not None:
            self._check.verify(self.collection)
            if not self._check.keeps_vectors(self.collection):
                self._queue.catch_up_some(self.collection, _SECONDS_A_SAVE)
        self._keep_within_limits()
        if self._options.on_stale == "renew":
            self._renewal.run(self, self.collection)

    def close(self) -> None:
        """Release the collection; one that another thread is opening is released too, and none is opened again."""
        with self._opening:
            self._closed = True
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def info(self) -> CollectionInfo:
        """Report where the items are and how many there are."""
        return self.collection.info()

    def examine(self) -> Iterable[FileReport]:
        """Report on the collection's file or database; a store type with further files adds theirs."""
        for report in examine_location(self.setup.location(self._place.memory_path), self.setup.name):
            facts, findings = self.examine_states(read_states(Path(report.path)))
            yield replace(report, facts={**report.facts, **facts}, findings=[*report.findings, *findings])

    def examine_states(
        self,
        states: Mapping[StateKey, bytes],  # noqa: ARG002 - of a subclass
    ) -> tuple[Mapping[str, Fact], Sequence[Finding]]:
        """Return counts and findings of the further values that the store keeps in its file; there may be none."""
        return {}, ()

    def files(self) -> Iterable[Path]:
        """Return the collection's file with those beside it; a store type with further files adds theirs."""
        location = self.setup.location(self._place.memory_path)
        file = None if location is None else file_of(location)
        if file is None:
            return []
        logged = [file, f"{file}{STATES_SUFFIX}"] if file.endswith(".json") else [file]
        databases = [f"{each}{end}" for each in logged for end in ("", "-wal", "-shm")]
        return [Path(name) for name in (*databases, f"{file}.faiss", f"{file}{SUFFIX}")]

    def rewrite_files(self) -> Sequence[Residue]:
        """Remove the bytes of deleted values from the file beside a `.json` file; return what could not be reached."""
        return self.collection.rewrite_states() if isinstance(self.collection, JsonCollection) else ()

    @property
    def embedder(self) -> Embedder | None:
        """The embedding model; None where items are found by their words alone."""
        return self._embedder

    @property
    def token_embedder(self) -> TokenEmbedder | None:
        """The model whose token vectors searches compare; None where they compare none."""
        model: object = self._embedder.token_model if isinstance(self._embedder, CombinedEmbedder) else self._embedder
        if isinstance(model, TokenEmbedder) and self._options.retrieval.late_interaction:
            return model
        return None

    def search_by_words(self) -> None:
        """Go on without the embedding model, as where the collection's embeddings are another model's."""
        self._use_model(None)

    def reindex(self, progress: Progress | None = None, *, force: bool = False) -> int:
        """Embed every item with the configured model, by the configured fields; return the number embedded.

        Interrupted, it continues where it stopped: items without an embedding wait for it. Where this model made the
        embeddings already, only waiting items are embedded, unless `force` replaces all of them.

        Raises:
            EmbeddingError: the provider does not answer; the items are found by their text meanwhile.
        """
        collection = self._fields.reindexed(self._open(claim=False))
        if self._embedder is None or self._queue is None or self._check is None:
            return 0
        self._embedder.embed(["probe"])
        identity = self._embedder.identity
        if force or collection.info().embedding != identity.name:
            collection.replace_model(identity.name, identity.dimension)
        self._check.verify(collection)
        return self._queue.catch_up(collection, progress)

    def stored_embeddings(self, items: Sequence[MemoryItem]) -> Mapping[str, PassageEmbeddings]:
        """Return the embeddings, by id, of those items that are stored with the same content already."""
        if self._queue is None or not items:
            return {}
        contents = {item.id: embedded_hash(item) for item in self.with_fields(items)}
        stored = self.collection.embeddings(list(contents))
        return {item_id: found for item_id, found in stored.items() if found.content_hash == contents[item_id]}

    @property
    def ranking(self) -> Ranking:
        """How the collection ranks, as the `retrieval:` block says."""
        return ranking_of(self._options.retrieval)

    def answer(self, query: MemoryQuery) -> SearchReport:
        """Answer in the store's own order, or else in the collection's."""
        ranked = self.rank(query)
        return self.search_collection(query) if ranked is None else ranked

    def answer_conversations(self, query: MemoryQuery, hits_each: int) -> list[HitGroup]:
        """Rank conversations by all that the collection knows of them; by their best hits where others order those."""
        deep = deepened(query)
        report = self.rank(deep)
        if report is None and self._rerank_stage is None:
            return self.collection.conversations(self.search_query(query, limit=query.limit), hits_each=hits_each)
        if report is None:
            report = self.search_collection(deep)
        return best_conversations(report, limit=query.limit, hits_each=hits_each)

    def search_collection(self, query: MemoryQuery) -> SearchReport:
        """Search by all signals, as the `retrieval:` block says, with the reranker that it names."""
        # Others take the place of hits that are not relevant.
        wanted = 2 * query.limit if query.only_relevant else query.limit
        report = self.collection.search(self.search_query(query, limit=max(wanted, self.search_depth(query.limit))))
        least = self._embedder.identity.least_similarity if self._embedder else None
        if query.only_relevant:
            report = replace(report, hits=relevant_hits(query.text, report, least))
        return self.rerank(query, report)

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
        if self._check is not None:
            self._check.verify(self.collection)
        options, model = self._options.retrieval, self._embedder
        if query.embedding.given is not None and model is None:
            raise EmbeddingError(f"memory {self.name!r} has no vectors: its `embedding` names the model that made them")
        ranking = ranking or self.ranking
        collapse = ranking.collapse if query.collapse is None else query.collapse
        ranking = replace(ranking, collapse=collapse, focus=ranking.focus and query.embedding.focus)
        embedding = query.embedding.focused() if ranking.focus and weights is None else query.embedding
        vector, tokens = embedding.signals(model)
        when = current_asked_at() if query.asked_at is None else query.asked_at
        if options.timezone is not None and (not isinstance(when, datetime) or when.tzinfo is None):
            zone = ZoneInfo(options.timezone)
            seconds = self.setup.clock() if when is None else when
            when = (
                seconds.replace(tzinfo=zone) if isinstance(seconds, datetime) else datetime.fromtimestamp(seconds, zone)
            )
        return SearchQuery(
            text=query.text,
            vector=vector,
            tokens=tokens,
            limit=limit,
            min_similarity=query.similarity_threshold,
            min_relevance=options.min_relevance if query.min_relevance is None else query.min_relevance,
            where=query.where,
            weights=weights,
            ranking=ranking,
            candidates=options.candidates,
            now=when,
            spelling=embedding.spelling(model) if ranking.spelling and weights is None else None,
            explain=query.explain,
        )

    def search_depth(self, top_k: int) -> int:
        """Return the number of hits to search for before `rerank`, where `top_k` are wanted."""
        return self._rerank_stage.candidates(top_k) if self._rerank_stage else top_k

    def rerank(self, query: MemoryQuery, report: SearchReport) -> SearchReport:
        """Have the configured reranker, if there is one, read the best hits; keep `query.limit`."""
        if self._rerank_stage is None:
            return report if len(report.hits) <= query.limit else replace(report, hits=report.hits[: query.limit])
        return self._rerank_stage.at(report, query.text, query.limit)

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
        """Store finished items, all or none of them; each keeps its id and is stored once.

        Args:
            items: the items.
            progress: is called with their number when they are stored.
            embeddings: those that the store's own model made already, by the items' ids.
            expected: versions that are to be replaced, by the items' ids; see `Collection.add`.

        Raises:
            VersionConflictError: another version is stored; nothing was stored.
        """
        if not items:
            return []
        # What replaces nothing has no earlier embeddings.
        older = [item for item in items if expected is None or expected.get(item.id, "") is not None]
        known = {**self.stored_embeddings(older), **(embeddings or {})}
        outcomes = self.store_items(items, unique=Unique.ID, embeddings=known, expected=expected)
        if replacing := [item for item in items if (expected or {}).get(item.id) is not None]:
            self._replaced(replacing)
        if progress:
            progress(len(outcomes))
        return outcomes

    def _replaced(self, items: Sequence[MemoryItem]) -> None:
        """Follow up items that have taken the place of known versions; a hook for what was made of these."""

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
        given, collection = items, self.collection
        announced = self._observer.announce(given) if self._observer else []
        if self._check is not None:
            self._check.verify(collection)
        items = self.with_fields(items)
        caught: Mapping[str, str] = {}
        if self._guard is not None:
            items, embeddings, expected, caught = self._guard.screen(items, collection, embeddings, expected)
        now = self.setup.clock()
        items = self._expiry.stamped(items, now, collection.get, expected)
        too_old = [self._expiry.has_passed(item, now) for item in items]
        current = [item for item, is_too_old in zip(items, too_old, strict=True) if not is_too_old]
        prepared = [PreparedItem.of(item, (embeddings or {}).get(item.id)) for item in current]
        if self._queue is not None:
            prepared = self._queue.embed(prepared)
        add = collection.add if self._guard is None else partial(self._guard.add, collection, caught)
        written = add(prepared, unique=unique or self.unique, expected=expected, absent=absent)
        self._follow_up(collection, written)
        left = iter(written)
        outcomes = [skipped("older than the store's `retention`") if is_old else next(left) for is_old in too_old]
        if self._observer and announced:
            self._observer.settle(announced, given, outcomes)
        return outcomes

    def _follow_up(self, collection: Collection, written: Sequence[WriteOutcome]) -> None:
        """Log what tombstones kept out of a write, embed some of the items that wait, and keep within the limits."""
        if kept_out := sum(outcome.reason == ERASED_BEFORE for outcome in written):
            _LOG.info("memory store %r: %d item(s) were not stored, as tombstones keep them out.", self.name, kept_out)
        if self._queue is not None:
            self._queue.catch_up_some(collection, _SECONDS_A_WRITE)
        self._keep_within_limits()

    def stamped(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return items as `store_items` stores them, with the store's fields, and the expiry of its lifetimes."""
        return self._expiry.stamped(self.with_fields(items), self.setup.clock(), self.collection.get)

    def with_fields(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return items as they are kept here: with the store's fields, and hashes of what they were derived from."""
        return with_parent_hashes(self._fields.stamped(items, lambda: self.collection), self.get)

    def _keep_within_limits(self) -> None:
        """Delete the oldest items beyond the store's capacity, and those that are older than its retention."""
        keep, stored_before = self.capacity(), self._expiry.oldest(self.setup.clock())
        if keep is None and stored_before is None:
            return
        try:
            self.collection.trim(keep=keep, stored_before=stored_before)
        except CollectionError as error:
            # The items before it are stored, and the next write trims again.
            _LOG.warning("memory store %r keeps more items than it should for now: %s", self.name, error)

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`."""
        return self.collection.get(ids)

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first."""
        return self.collection.recent(limit, where, order=order, offset=offset)

    def scan(
        self, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> Iterator[MemoryItem]:
        """Return every item that matches, in an order, a few at a time."""
        return self.collection.scan(where, order=order, offset=offset)

    def values(
        self, key: str, where: Filter | None = None, *, prefix: str = "", limit: int | None = None, offset: int = 0
    ) -> list[Scalar]:
        """Return the distinct values that items have of a key such as `user` or `metadata.room`, in order."""
        return self.collection.values(key, where, prefix=prefix, limit=limit, offset=offset)

    def value_counts(self, key: str, where: Filter | None = None) -> list[tuple[Scalar | None, int]]:
        """Return how many items have each value of a key, the most frequent value first."""
        return self.collection.value_counts(key, where)

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""
        return self.collection.count(where)

    # Removing, with the versions that the history keeps.

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Delete the items stored last and return them, newest first: at most `count`, each to one caller only."""
        return self.collection.pop(count, where)

    def _delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        return self.collection.delete(ids=ids, where=where)

    def clear(self) -> int:
        """Delete everything; return how many items there were."""
        return self.collection.clear()

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest items, and those that are too old; return how many there were."""
        return self.collection.trim(keep=keep, stored_before=stored_before)

    # Erasing, which leaves neither versions nor bytes.

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items permanently, their versions included; return their number."""
        deleted = super().erase(ids=ids, where=where)
        if not isinstance(self.collection, VersionedCollection):
            return deleted
        found = deleted + self.collection.erase(ids=ids, where=where)
        # An id counts once, even if another process stored it again between the two.
        return found if ids is None else min(found, max(deleted, len(set(ids))))

    def erasing_filter(self, where: Filter) -> Filter:
        """Return the filter by which items are erased; a store type whose deletions reach further overrides it."""
        return where

    def _widened(self, request: EraseRequest) -> EraseRequest:
        return replace(request, where=self.erasing_filter(request.where))

    def select_erasable(self, request: EraseRequest) -> list[MemoryItem]:
        """Return the items that are selected to be erased, and one version of those that are no longer there."""
        widened = self._widened(request)
        if isinstance(self.collection, VersionedCollection):
            return self.collection.select_erasable(widened)
        return [item for item in self.collection.scan() if widened.admits(item)]

    def derived_from(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that were derived from some items, or from such items, as their provenance says."""
        if isinstance(self.collection, VersionedCollection):
            return self.collection.derived_from(ids)
        return descendants(list(self.collection.scan()), ids)

    def begin_erasure(self, request: EraseRequest) -> int:
        """Record in a database, but not in a file, what is about to be erased; see `MemoryBase.begin_erasure`."""
        collection = self.collection
        if not isinstance(collection, VersionedCollection) or file_of(collection.info().location) is not None:
            return 0
        self._keep_tombstones(request, ())
        return collection.begin_erasure(self._widened(request)).items

    def erase_selected(
        self, request: EraseRequest, derived: Sequence[str] = (), *, words: Sequence[str] = (), vacuum: bool = False
    ) -> EraseResult:
        """Erase items down to the bytes, where the collection does; see `MemoryBase.erase_selected`."""
        collection, texts = self.collection, self._keep_tombstones(request, derived)
        if isinstance(collection, VersionedCollection):
            plan = collection.begin_erasure(self._widened(request), derived)
            items = self._erase_planned(collection, request, plan)
            left = self.rewrite_files()
            done = collection.finish_erasure(plan, words, vacuum=vacuum)
            # An item that another erasure planned first counts for that one only, whichever deletes it.
            items = done.items + max(0, items - len(plan.ids))
            return replace(done, items=items, residues=(*left, *done.residues), tombstones=texts)
        ids = [*(item.id for item in self.select_erasable(request)), *derived]
        items = self.clear() if request.is_everything else self.erase(ids=ids)
        left, done = self.rewrite_files(), search_deleted(self.collection, items, words)
        return replace(done, residues=(*left, *done.residues))

    def _keep_tombstones(self, request: EraseRequest, derived: Sequence[str]) -> int:
        """Keep tombstones of what is to be erased, where this is asked for; return the number of texts."""
        collection = self.collection
        if not (isinstance(collection, VersionedCollection) and (request.tombstone or self._place.tombstones)):
            return 0
        selected = {item.id: item for item in self.select_erasable(request)}
        taken = [item for item in self.get(derived) if item.id not in selected]
        return collection.keep_out(request, list(selected.values()), taken)

    def _erase_planned(self, collection: VersionedCollection, request: EraseRequest, plan: ErasePlan) -> int:
        """Delete what is planned; where that fails, the plan goes too: whoever is told of the error sees the items."""
        try:
            return self.clear() if request.is_everything else self.erase(ids=plan.ids)
        except (CollectionError, OSError):
            if len(collection.get(plan.ids)) >= plan.items:
                collection.withdraw_erasure(plan)
            raise

    def finish_erasure(self) -> None:
        """Finish erasures that were interrupted, and erase again what came back with another file in its place.

        What cannot be written is left to the next opening.
        """
        collection = self.collection
        try:
            if isinstance(collection, VersionedCollection):
                for plan in [each for each in collection.planned_erasures() if not each.is_executed]:
                    self.erase(ids=plan.ids)
                    self.rewrite_files()
                    collection.finish_erasure(plan, vacuum=True)
            for record in erase_records(erasures_file(self.setup.base_dir), self.setup):
                self.erase_selected(EraseRequest(ids=record.names, tombstone=record.tombstone), vacuum=True)
                record.done()
            items = collection.apply_tombstones().items if isinstance(collection, VersionedCollection) else 0
            if items:
                self.rewrite_files()
                _LOG.warning(
                    "memory store %r: %d item(s) that had been erased came back with another file, and were erased "
                    "again.", self.name, items,
                )  # fmt: skip
        except (CollectionUnwritableError, CollectionBusyError, OSError) as error:
            # Reading needs none of it.
            _LOG.warning("%s: an erasure that was interrupted waits for the next opening: %s", self.name, error)
