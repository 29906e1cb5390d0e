"""One search over several databases: their `SearchSource`s as one, so that hits rank as in a single store.

Rows, passages and positions carry the number of their database in their high bits. The statistics of the query's terms
are collected from all databases before any of them scores a passage, as the search over a partitioned collection needs
(Callan, "Distributed Information Retrieval", 2000, on global statistics), so BM25 and late interaction weigh words as
in one store; every other feature is computed over the candidates of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Vector
from devmem.models.embedder import TokenCodes
from devmem.search.indexes.columns import Mask, Positions, Rows
from devmem.search.indexes.scoring import WordStatistics
from devmem.search.source import FilterMatches, IndexesReader, SearchSource, VectorsReader, WordQueryReader
from devmem.text.query_text import QueryText

T = TypeVar("T")

_SHIFT: Final = 57
"""Bits of a number within its database; the sign is left alone, as -1 stands for none."""
_MASK: Final = (1 << _SHIFT) - 1
MOST_SOURCES: Final = 1 << (63 - _SHIFT)
"""Maximum number of databases that one search can cover."""


def _split(numbers: NDArray[np.int64]) -> Iterator[tuple[int, Positions, NDArray[np.int64]]]:
    """Yield each database that some numbers are of, the places of its numbers, and these as it knows them."""
    of = np.where(numbers >= 0, numbers >> _SHIFT, -1)
    for number in np.unique(of).tolist():
        if number >= 0:
            places = np.flatnonzero(of == number)
            yield number, places, numbers[places] & _MASK


def _numbered(number: int, local: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(local >= 0, local | (number << _SHIFT), local)


@dataclass(frozen=True, slots=True)
class _Part:
    """A database after the filter was applied."""

    source: SearchSource
    matches: FilterMatches

    @property
    def indexes(self) -> IndexesReader:
        return self.source.indexes


class _Parts:
    """The databases of a search, asked side by side where that pays off."""

    def __init__(self, parts: Sequence[_Part], executor: Executor) -> None:
        self._parts, self._executor = parts, executor

    def __iter__(self) -> Iterator[tuple[int, _Part]]:
        return iter(enumerate(self._parts))

    def __getitem__(self, number: int) -> _Part:
        return self._parts[number]

    def each(self, ask: Callable[[int, _Part], T]) -> list[T]:
        """Ask all databases at once; return their answers in order."""
        return list(self._executor.map(ask, range(len(self._parts)), self._parts))


class _Column:
    """A column of all databases, which is read at positions alone."""

    def __init__(self, parts: _Parts, name: str) -> None:
        self._parts, self._name = parts, name

    def __getitem__(self, positions: Positions) -> NDArray[Any]:
        found = np.zeros(len(positions), dtype=self._parts[0].indexes.doc_values.column(self._name).dtype)
        for of, at, own in _split(positions):
            found[at] = self._parts[of].indexes.doc_values.column(self._name)[own]
        return found


class _DocValues:
    """Fields of items; see `DocValuesReader`."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts

    @property
    def has_conversations(self) -> bool:
        return any(part.indexes.doc_values.has_conversations for _, part in self._parts)

    def positions(self, rows: Rows) -> Positions:
        found = np.full(len(rows), -1, dtype=np.int64)
        for of, at, own in _split(rows):
            found[at] = _numbered(of, self._parts[of].indexes.doc_values.positions(own))
        return found

    def rows(self, positions: Positions) -> Rows:
        found = np.full(len(positions), -1, dtype=np.int64)
        for of, at, own in _split(positions):
            found[at] = _numbered(of, self._parts[of].indexes.doc_values.rows(own))
        return found

    def column(self, name: str) -> NDArray[Any]:
        # Readers index it with arrays of positions, and use nothing else of an array.
        return cast("NDArray[Any]", _Column(self._parts, name))

    def speakers(self, positions: Positions) -> list[str | None]:
        return self._texts(positions, lambda part, own: part.indexes.doc_values.speakers(own))

    def users(self, positions: Positions) -> list[str | None]:
        return self._texts(positions, lambda part, own: part.indexes.doc_values.users(own))

    def conversations(self, positions: Positions) -> list[str | None]:
        return self._texts(positions, lambda part, own: part.indexes.doc_values.conversations(own))

    def _texts(self, positions: Positions, read: Callable[[_Part, Positions], list[str | None]]) -> list[str | None]:
        found: list[str | None] = [None] * len(positions)
        for of, at, own in _split(positions):
            for place, text in zip(at.tolist(), read(self._parts[of], own), strict=True):
                found[place] = text
        return found

    def around(self, positions: Positions, reach: int, visible: Mask | None = None) -> list[Positions]:  # noqa: ARG002
        found = [np.full(len(positions), -1, dtype=np.int64) for _ in range(2 * reach)]
        for of, at, own in _split(positions):
            part = self._parts[of]
            for step, turns in enumerate(part.indexes.doc_values.around(own, reach, part.matches.positions)):
                found[step][at] = _numbered(of, turns)
        return found

    def with_cues(self, cues: int, admitted: Mask | None = None) -> Positions:  # noqa: ARG002 - each has its own
        found = [
            _numbered(of, part.indexes.doc_values.with_cues(cues, part.matches.positions)) for of, part in self._parts
        ]
        return np.concatenate(found)

    def last_with_cues(self, cues: int, limit: int, admitted: Mask | None = None) -> Positions:  # noqa: ARG002
        found = np.concatenate(
            [
                _numbered(of, part.indexes.doc_values.last_with_cues(cues, limit, part.matches.positions))
                for of, part in self._parts
            ]
        )
        order = np.argsort(self.column("time")[found], kind="stable")
        return found[order[-limit:]] if limit > 0 else found[:0]


class _PassageMap:
    """Which passages an item has; see `PassageMapReader`."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts

    @property
    def singles(self) -> bool:
        return all(part.indexes.passage_map.singles for _, part in self._parts)

    def rows_of(self, passages: Rows) -> Rows:
        found = np.full(len(passages), -1, dtype=np.int64)
        for of, at, own in _split(passages):
            found[at] = _numbered(of, self._parts[of].indexes.passage_map.rows_of(own))
        return found

    def passages_of(self, rows: Rows) -> tuple[Rows, Rows]:
        passages, owners = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for of, at, own in _split(rows):
            found, owner = self._parts[of].indexes.passage_map.passages_of(own)
            passages.append(_numbered(of, found))
            owners.append(at[owner])
        joined, owner = np.concatenate(passages), np.concatenate(owners)
        # In the order of the rows, as a single map returns them.
        order = np.argsort(owner, kind="stable")
        return joined[order], owner[order]

    def all_passages_of(self, rows: Rows) -> Rows:
        found = [_numbered(of, self._parts[of].indexes.passage_map.all_passages_of(own)) for of, _, own in _split(rows)]
        return np.concatenate([np.empty(0, dtype=np.int64), *found])


class _WordQuery:
    """The terms of a text in all databases; see `WordQueryReader`."""

    def __init__(self, parts: _Parts, text: QueryText) -> None:
        self._parts = parts
        self._alone = parts.each(lambda _, part: part.indexes.postings.query(text, part.matches.passages))
        """With the statistics of each database alone."""
        shared = WordStatistics.total([query.statistics for query in self._alone])
        self._queries = parts.each(lambda _, part: part.indexes.postings.query(text, part.matches.passages, shared))
        self.ceiling = shared.ceiling

    @property
    def count(self) -> int:
        return sum(query.count for query in self._alone)

    @property
    def statistics(self) -> WordStatistics:
        return WordStatistics.total([query.statistics for query in self._alone])

    def frequency(self, term: str) -> int:
        return sum(query.frequency(term) for query in self._alone)

    def top(self, limit: int) -> Rows:
        def best(number: int, _part: _Part) -> tuple[Rows, NDArray[np.float64]]:
            rows = self._queries[number].top(limit)
            return _numbered(number, rows), self._queries[number].scores_of(rows)

        found = self._parts.each(best)
        rows, scores = (np.concatenate(column) for column in zip(*found, strict=True))
        return np.asarray(rows[np.lexsort((-rows, -scores))][:limit])

    def scores_of(self, passages: Rows) -> NDArray[np.float64]:
        found = np.zeros(len(passages), dtype=np.float64)
        for of, at, own in _split(passages):
            found[at] = self._queries[of].scores_of(own)
        return found


class _Postings:
    """The full-text indexes; see `PostingsReader`."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts

    def query(
        self,
        text: QueryText,
        allowed: Rows | None = None,  # noqa: ARG002 - each has its own
        shared: WordStatistics | None = None,  # noqa: ARG002
    ) -> WordQueryReader:
        return _WordQuery(self._parts, text)

    def frequencies(self, terms: Sequence[str], allowed: Rows | None = None) -> dict[str, int]:  # noqa: ARG002
        each = self._parts.each(lambda _, part: part.indexes.postings.frequencies(terms, part.matches.passages))
        return {term: sum(one[term] for one in each) for term in terms}


class _Vectors:
    """The vectors; see `VectorsReader`."""

    def __init__(self, parts: _Parts, dimension: int) -> None:
        self._parts, self.dimension = parts, dimension

    def nearest(self, query: Vector, limit: int, allowed: Rows | None = None) -> tuple[Rows, Vector]:
        of_part = {of: own for of, _, own in _split(allowed)} if allowed is not None else None

        def nearest(number: int, part: _Part) -> tuple[Rows, Vector]:
            vectors = part.indexes.vectors
            if vectors is None or (of_part is not None and number not in of_part):
                return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
            passages, near = vectors.nearest(
                query, limit, part.matches.passages if of_part is None else of_part[number]
            )
            return _numbered(number, passages), near

        passages, near = (np.concatenate(column) for column in zip(*self._parts.each(nearest), strict=True))
        order = np.lexsort((-passages, -near))[:limit]
        return passages[order], near[order]

    def similarities(self, query: Vector, passages: Rows) -> NDArray[np.float64]:
        found = np.full(len(passages), np.nan)
        for of, at, own in _split(passages):
            if (vectors := self._parts[of].indexes.vectors) is not None:
                found[at] = vectors.similarities(query, own)
        return found

    def gather(self, passages: Rows) -> Vector:
        found = np.zeros((len(passages), self.dimension), dtype=np.float32)
        for of, at, own in _split(passages):
            if (vectors := self._parts[of].indexes.vectors) is not None:
                found[at] = vectors.gather(own)
        return found


class _Indexes:
    """The indexes of all databases; see `IndexesReader`."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts
        self.doc_values, self.passage_map, self.postings = _DocValues(parts), _PassageMap(parts), _Postings(parts)

    @property
    def vectors(self) -> VectorsReader | None:
        known = [vectors for _, part in self._parts if (vectors := part.indexes.vectors) is not None]
        return _Vectors(self._parts, known[0].dimension) if known else None


class UnionSource:
    """Several databases as one search sees them; see `SearchSource`.

    Each is as of its own moment. Statistics, candidates and features are those of one store that held everything.
    """

    def __init__(
        self,
        sources: Sequence[SearchSource],
        executor: Executor,
        narrow: Callable[[int, Filter], Filter] = lambda _, where: where,
    ) -> None:
        """Take the databases, at most `MOST_SOURCES`.

        Args:
            sources: the databases.
            executor: asks them side by side.
            narrow: returns the filter of one of them, given its place and that of the search.
        """
        self._sources, self._executor, self._narrow = sources, executor, narrow
        self._indexes: _Indexes | None = None

    @property
    def indexes(self) -> IndexesReader:
        """The indexes, which show what the filter admits."""
        assert self._indexes is not None, "the filter comes first"  # noqa: S101 - `apply_filter` was called
        return self._indexes

    def apply_filter(self, where: Filter, period: tuple[float, float] | None) -> FilterMatches:
        """Restrict the indexes of each database to what a filter admits."""
        parts = [
            _Part(source, source.apply_filter(self._narrow(number, where), period))
            for number, source in enumerate(self._sources)
        ]
        self._indexes = _Indexes(_Parts(parts, self._executor))
        return FilterMatches(filtered=sum(part.matches.filtered for part in parts))

    def items(self, rows: Sequence[int]) -> dict[int, MemoryItem]:
        """Return items by row number."""
        found: dict[int, MemoryItem] = {}
        asked = list(_split(np.array(rows, dtype=np.int64)))
        answers = self._executor.map(lambda part: self._sources[part[0]].items(part[2].tolist()), asked)
        for (_, at, own), read in zip(asked, answers, strict=True):
            found |= {rows[place]: read[row] for place, row in zip(at.tolist(), own.tolist(), strict=True)}
        return found

    def token_codes(self, passages: Rows, width: int) -> tuple[TokenCodes, NDArray[np.int64]]:
        """Return the token codes of passages, joined in their order, and the number of codes of each."""
        counts, pieces = np.zeros(len(passages), dtype=np.int64), dict[int, TokenCodes]()
        for of, at, own in _split(passages):
            codes, each = self._sources[of].token_codes(own, width)
            counts[at] = each
            pieces.update(zip(at.tolist(), np.split(codes, np.cumsum(each)[:-1]), strict=True))
        if not counts.any():
            return np.empty((0, width), dtype=np.uint8), counts
        return np.concatenate([pieces[place] for place in np.flatnonzero(counts).tolist()]), counts
