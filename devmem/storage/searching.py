"""Searching a collection: what every collection does with a `SearchPipeline` and its hits."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar, cast

from devmem.config.store import IndexConfig
from devmem.errors import CollectionInUseError, EmbeddingMismatchError
from devmem.forks import follow_forks
from devmem.model.conditions import Order, Scalar
from devmem.model.filters import NO_FILTER, Filter, counted, metadata_key, values_at
from devmem.model.items import MemoryItem
from devmem.model.results import Hit, HitGroup, SearchReport
from devmem.models.embedder import ModelIdentity
from devmem.search.indexes.columns import locked
from devmem.search.indexes.index_set import IndexReader, IndexSet
from devmem.search.pipeline import SearchPipeline
from devmem.search.query import SearchQuery
from devmem.search.source import SearchSource

T = TypeVar("T")

MISSING: Final = MemoryItem(id="", content_summary="", created_at=0.0)
"""Stands for a row that is damaged or not there, while a search ranks it."""


class SearchingCollection(ABC):
    """The searching methods of `Collection`, on a source that a subclass opens for each search."""

    @abstractmethod
    def _now(self) -> float:
        """Return the current time in seconds since the epoch."""

    @abstractmethod
    def with_source(self, query: SearchQuery, run: Callable[[SearchSource, float], T]) -> T:
        """Call a function with the database as one search sees it, whose indexes are up to date, and its time.

        The source is valid until the function returns; the time is in seconds since the epoch.
        """

    def _search(self, query: SearchQuery, run: Callable[[SearchPipeline], T]) -> T:
        """Run a search, for what is meant by the misspelled words of the query."""
        check = query.spelling
        if check is None:
            return self.with_source(query, lambda source, now: run(SearchPipeline(source, query, now)))

        def found(source: SearchSource, now: float) -> tuple[Mapping[str, str], T | None]:
            pipeline = SearchPipeline(source, query, now)
            by_word = pipeline.corrections(check)
            return by_word, None if by_word else run(pipeline)

        # Words are replaced after the transaction, as the query is embedded again.
        by_word, result = self.with_source(query, found)
        return self._search(check.applied(query, by_word), run) if by_word else cast("T", result)

    @abstractmethod
    def _with_attachments(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return the items, in their order, with their attachments as they are read."""

    @abstractmethod
    def scan(
        self, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> Iterator[MemoryItem]:
        """Return every item in an order."""

    @abstractmethod
    def _value_counts(self, key: str, where: Filter) -> Sequence[tuple[Scalar | None, int]]:
        """Return how many items have each value of a key, which is not a path; a value may come more than once."""

    def value_counts(self, key: str, where: Filter | None = None) -> list[tuple[Scalar | None, int]]:
        """Return how many items have each value."""
        name = metadata_key(key)
        if name is None or "." not in name:
            return counted(self._value_counts(key, where or NO_FILTER))
        return counted((value, 1) for item in self.scan(where) for value in values_at(item, key))

    def search(self, query: SearchQuery) -> SearchReport:
        """Return the best items, best first, and how they were found."""
        if not _ranks(query):
            return SearchReport()
        report = self._search(query, lambda pipeline: pipeline.run())
        return replace(
            report,
            hits=self._shown(report.hits, query),
            cut=tuple(each for each in report.cut if each.item_id != MISSING.id),
        )

    def conversations(self, query: SearchQuery, *, hits_each: int = 3) -> list[HitGroup]:
        """Return the conversations that the query is about, best first, each with its best items."""
        if hits_each < 1 or not _ranks(query):
            return []
        groups = self._search(query, lambda pipeline: pipeline.conversations(hits_each))
        shown = (replace(group, hits=self._shown(group.hits, query)) for group in groups)
        return [group for group in shown if group.hits]

    def _shown(self, hits: Sequence[Hit], query: SearchQuery) -> tuple[Hit, ...]:
        """Return the hits with their attachments, without damaged rows.

        Where a column is damaged, the item itself does not match the filter.
        """
        admits = query.where.matcher(self._now())
        intact = [hit for hit in hits if hit.item is not MISSING and admits(hit.item)]
        items = self._with_attachments([hit.item for hit in intact])
        # Most items have no attachments and are the hits' own.
        pairs = zip(intact, items, strict=True)
        return tuple(hit if item is hit.item else replace(hit, item=item) for hit, item in pairs)


def _ranks(query: SearchQuery) -> bool:
    """Whether a query has anything to rank by."""
    return query.limit > 0 and (query.vector is not None or bool(query.text.strip()))


Connection = TypeVar("Connection")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSnapshot:
    """One moment of the database."""

    indexes: IndexReader
    model: str | None
    """Name of the model that made the embeddings."""
    generation: int
    """Grows when all embeddings are replaced, which keep the numbers of their passages."""


class Follower(ABC, Generic[Connection]):
    """Keeps an `IndexSet` up to date with a database. Thread-safe."""

    def __init__(self, config: IndexConfig | None) -> None:
        """Start empty; `config` says how vectors are searched, None takes the defaults."""
        self._lock = threading.Lock()
        self._config = config
        self.indexes = IndexSet(config)
        """Only to be changed or read while no other thread follows."""
        self._moment: ReadSnapshot | None = None
        """None as long as the indexes are not those of the database."""
        self._generation = 0
        """Generation of the database that the indexes are of."""
        follow_forks(self)

    def restart_in_child(self) -> None:
        """Build the indexes again if another thread of the parent was changing them."""
        if self._lock.locked():
            self._moment = None

    @abstractmethod
    def _poll(self, connection: Connection) -> bool:
        """Whether the database may have changed since the moment; the first statement of a transaction."""

    @abstractmethod
    def _catch_up(self, connection: Connection, now: float) -> str | None:
        """Apply what was committed since the moment, or begin again where `_moment` is None; return the model's name.

        `now` is in seconds since the epoch.
        """

    def _is_untouched(self, error: BaseException) -> bool:  # noqa: ARG002 - of a subclass
        """Whether the indexes are those of the moment after an error; False where that is not known."""
        return False

    def follow(self, connection: Connection, now: float) -> ReadSnapshot:
        """Bring the indexes up to date with the connection's read transaction, and return them as of that moment.

        This has to be the first statement of the transaction: it fixes the moment that the transaction reads while no
        other thread can bring the indexes further.

        Args:
            connection: in a transaction.
            now: items that expired until then are not in the indexes; seconds since the epoch.
        """
        return locked(self._lock, lambda: self._follow(connection, now))

    def _follow(self, connection: Connection, now: float) -> ReadSnapshot:
        try:
            if self._moment is not None and now < self.indexes.expired_until:
                # The clock went back: items that had expired are there again.
                self._moment = None
            if self._poll(connection) or self._moment is None:
                model = self._catch_up(connection, now)
            else:
                model = self._moment.model
            self.indexes.expire(now)
        except BaseException as error:
            # What was applied in part would be applied twice: the next call starts again.
            if not self._is_untouched(error):
                self._moment = None
            raise
        self._moment = ReadSnapshot(indexes=self.indexes.reader(), model=model, generation=self._generation)
        return self._moment


def check_name(location: str, *, made: str | int | None, given: str | None) -> None:
    """Refuse another model than the one that is recorded now.

    While a collection is open another process may have embedded it with another model.
    """
    if made is not None and given is not None and made != given:
        raise EmbeddingMismatchError(location, recorded=str(made), wanted=given)


def check_length(location: str, *, made: int, given: int) -> None:
    """Refuse an embedding of another length than those in the collection."""
    if given != made:
        raise EmbeddingMismatchError(
            location, recorded=f"a model of {made} dimensions", wanted=f"one of {given} dimensions", same_name=True
        )


def is_replaceable(model: ModelIdentity | None, *, recorded: str | None, dimension: int | None) -> bool:
    """Whether the recorded model has made no vector yet, of which the first sets the dimension, and another is wanted.

    So it is where a package or a file of the first model was missing.
    """
    return model is not None and recorded is not None and dimension is None and recorded != model.name


def check_model(location: str, model: ModelIdentity, *, recorded: str, dimension: int | None) -> None:
    """Refuse to open a collection with another model than the recorded one."""
    if recorded != model.name or (model.dimension and dimension and model.dimension != dimension):
        raise EmbeddingMismatchError(
            location,
            recorded=f"{recorded} ({dimension or 'unknown'} dimensions)",
            wanted=f"{model.name} ({model.dimension or 'unknown'} dimensions)",
            same_name=recorded == model.name,
        )


def check_store_type(location: str, *, owner: str | None, wanted: str | None) -> None:
    """Refuse to open the collection of another store type."""
    if wanted and owner and owner != wanted:
        raise CollectionInUseError(
            location, f"holds the items of a {owner!r} store; give the {wanted!r} store another path."
        )
