"""The passages that a search of a PostgreSQL store has read: the query's terms in them, and their cosines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from devmem.model.items import Vector
from devmem.search.indexes.columns import Positions, Rows, distinct, places_in, ranges
from devmem.search.indexes.scoring import Codes, posting_codes
from devmem.storage.postgres.database import Cursor, RowNumbers
from devmem.storage.postgres.rows import of_item
from devmem.storage.postgres.schema import PASSAGE_BITS, SAMPLED, SAMPLING


class Source(Protocol):
    """Runs statements on the admitted items."""

    @property
    def shows_state(self) -> bool:
        """Whether it shows another state than the current one."""
        ...

    def execute(self, statement: str, /, **values: object) -> Cursor:
        """Run a statement; its rows are waited for when they are asked for."""
        ...

    def numbers_of(self, words: Sequence[str], /) -> list[int]:
        """Return the numbers by which the database knows some terms of the store."""
        ...


def packed(*columns: str) -> str:
    """Return columns of all rows as one value each: row by row they take a process several times as long."""
    return "SELECT " + ", ".join(f"string_agg({column}, ''::bytea)" for column in columns)


ALL_ADMITTED: Final = "(SELECT row FROM items WHERE store = {store} AND {condition} OFFSET 0)"
# Whatever finds an item has compared it with the filter.
_OF_ROWS: Final = "(SELECT unnest(%(rows)s::bigint[]) AS row)"
_PASSAGES: Final = (
    # Without the head of the binary format of an array.
    packed("int8send(passage)", "int4send(length)", "int4send(octet_length(counts))", "counts",
            "substr(array_send(terms), 21)")
    + f" FROM {{found}} AS found CROSS JOIN {of_item('passages', 'passage, length, terms, counts', 'found.row')}"
)  # fmt: skip
NEAR: Final = packed("int8send(passage)", "float8send(-distance)")
_SIMILARITIES: Final = (
    f"{NEAR} FROM (SELECT passage, vector <#> %(query)s AS distance FROM vectors WHERE store = {{store}} "
    "AND passage = ANY(%(passages)s)) AS found"
)
_FREQUENCIES: Final = "SELECT term, texts FROM terms WHERE store = {store} AND term = ANY(%(terms)s)"
_FREQUENCIES_OF_OWNERS: Final = (
    "SELECT term, sum(texts)::bigint FROM unnest(%(terms)s::int[]) AS term, unnest(%(owners)s::int[]) AS owner "
    "CROSS JOIN LATERAL (SELECT count(*) AS texts FROM passages WHERE store = {store} AND is_current "
    "AND terms @> ARRAY[owner, term] AND {sampled}) AS counted GROUP BY term"
)
_MOST_COUNTED: Final = 10_000
"""Number of passages of some users up to which each term is counted in all of them."""
_LEAST_SAMPLED: Final = 100
"""Number of sampled passages with a term from which it need not be counted: the error is 10 % then, less of more."""
_FREQUENCIES_ADMITTED: Final = (
    f"SELECT term, count(DISTINCT passage) FROM {ALL_ADMITTED} AS found "
    f"CROSS JOIN {of_item('passages', 'passage, terms', 'found.row')}, unnest(terms) AS term "
    "WHERE term = ANY(%(terms)s) GROUP BY term"
)
_NO_ROWS: Final[Rows] = np.empty(0, dtype=np.int64)
Near: TypeAlias = tuple[Rows, NDArray[np.float64]]
"""Some passages and the cosine of each and the query."""
NOTHING_NEAR: Final[Near] = _NO_ROWS, np.empty(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """A store, and what the filter admits of it."""

    dimension: int | None
    texts: int
    """Number of its passages; where `is_shared`, of those of the owners, as are `length` and `frequencies`."""
    length: int
    """Sum of their lengths."""
    has_hnsw: bool
    has_conversations: bool
    expired: bool
    """Whether items that have expired are still there."""
    frequencies: dict[int, int]
    """Number of these passages with each term of the query that occurs, by the term's number."""
    admitted: int | None
    """Number of admitted items, counted up to what a search has to know; None where it admits all."""
    hidden: int
    owners: list[int] | None
    """Numbers of the users whose items alone the filter admits; None where it admits those of others too."""
    owned: int
    """Number of passages of these users."""
    admits_owned: bool
    """Whether the filter admits all items of these users."""
    is_small: bool
    """Whether so few items are admitted that all are read."""
    is_shared: bool
    """Whether it is not small, and others than these users have passages in the store."""


def numbers(raw: bytes | None, kind: str) -> NDArray[Any]:
    """Return numbers that the server has joined in its binary format."""
    found = np.frombuffer(raw or b"", dtype=kind)
    return found.astype(found.dtype.newbyteorder("="))


def near_of(cursor: Cursor) -> Near:
    """Return the passages, ascending, and the similarities that a statement found."""
    passages, similarity = (numbers(raw, kind) for raw, kind in zip(*cursor.fetchall(), (">i8", ">f8"), strict=True))
    order = np.argsort(passages)
    return passages[order], similarity[order]


def frequencies_of_owners(source: Source, terms: Sequence[int], owners: Sequence[int], owned: int) -> dict[int, int]:
    """Return how many of the passages of some users have each term that occurs there; of a common one, about how many.

    Counting a term that thousands have would take longer than all else.

    Args:
        source: runs the statements.
        terms: numbers of terms.
        owners: numbers of the users.
        owned: number of passages of these users.
    """
    found: dict[int, int] = {}
    if owned > _MOST_COUNTED:
        query = _FREQUENCIES_OF_OWNERS.replace("{sampled}", SAMPLED)
        sampled = source.execute(query, terms=terms, owners=owners).fetchall()
        found = {term: min(SAMPLING * texts, owned) for term, texts in sampled if texts >= _LEAST_SAMPLED}
    if others := [term for term in terms if term not in found]:
        query = _FREQUENCIES_OF_OWNERS.replace("{sampled}", "true")
        found |= source.execute(query, terms=others, owners=owners).fetchall()
    return found


class ReadPassages:
    """The passages that a search has read: their similarities, and where terms of the query occur in them.

    They show which passages an item has, too; see `PassageMapReader`.
    """

    singles = False
    """Nobody counted whether some item has more than one."""

    def __init__(self, source: Source, numbers: Mapping[str, int], state: StoreState, query: Vector | None) -> None:
        """Read nothing yet.

        Args:
            source: runs the statements.
            numbers: by which the database knows the terms of the query.
            state: of the store.
            query: vector of the query; None where similarity does not count.
        """
        self._source, self.numbers, self.state, self._query = source, numbers, state, query
        self.is_complete = False
        """Whether all passages that may be found are read."""
        self._rows: Rows = _NO_ROWS
        """Rows that were asked for, ascending."""
        self.passages: Rows = _NO_ROWS
        """Ascending."""
        self.similarity: NDArray[np.float64] = np.empty(0)
        """Cosine of each and the query; NaN for one without a vector."""
        self.lengths: NDArray[np.float32] = np.empty(0, dtype=np.float32)
        self._terms: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        """Number of each of the query's terms in each of the passages."""
        self._docs: Rows = _NO_ROWS
        self._codes: Codes = np.empty(0, dtype=np.uint16)

    def read_all(self) -> None:
        """Read all passages that may be found."""
        self._add(self._source.execute(_PASSAGES.replace("{found}", ALL_ADMITTED)), NOTHING_NEAR)
        self.is_complete = True

    def load(self, rows: Rows, near: Near = NOTHING_NEAR) -> None:
        """Read those of the items that were not read; one that is not there has no passages.

        Args:
            rows: row numbers.
            near: what is known of their passages.
        """
        new = _NO_ROWS if self.is_complete else distinct(rows[places_in(self._rows, rows) < 0])
        if len(new):
            self._rows = np.sort(np.concatenate([self._rows, new]))
            self._add(self._source.execute(_PASSAGES.replace("{found}", _OF_ROWS), rows=RowNumbers(new)), near)

    def _add(self, cursor: Cursor, near: Near) -> None:
        raw = cursor.fetchone() or ()
        if not raw or raw[0] is None:
            return
        passages, lengths, sizes = (numbers(each, kind) for each, kind in zip(raw, (">i8", ">i4", ">i4"), strict=False))
        unknown = passages[places_in(near[0], passages) < 0]
        others: Cursor | None = None
        if self._query is not None and len(unknown):
            # The server compares them while the terms are read here.
            others = self._source.execute(_SIMILARITIES, query=self._query, passages=RowNumbers(unknown))
        # Each element follows its length, and the number of the user follows the terms.
        terms = np.delete(numbers(raw[4], ">i4")[1::2], np.cumsum(sizes + 1) - 1)
        asked = np.isin(terms, np.fromiter(self.numbers.values(), dtype=np.int64))
        docs = np.repeat(np.arange(len(passages)), sizes)[asked]
        codes = posting_codes(np.frombuffer(raw[3], dtype=np.uint8)[asked], lengths[docs].astype(np.float32))
        self._terms = np.append(self._terms, terms[asked])
        self._docs, self._codes = np.append(self._docs, passages[docs]), np.append(self._codes, codes)
        similarity = np.full(len(passages), np.nan)
        for known, cosines in (near, near_of(others) if others else NOTHING_NEAR):
            at = places_in(known, passages)
            similarity[at >= 0] = cosines[at[at >= 0]]
        every = np.append(self.passages, passages)
        order = np.argsort(every)
        self.passages = every[order]
        self.similarity = np.append(self.similarity, similarity)[order]
        self.lengths = np.append(self.lengths, lengths.astype(np.float32))[order]

    def places(self, passages: Rows) -> Positions:
        """Return the place of each passage, -1 for one that is not there; those of its item are read where need be."""
        self.load(passages >> PASSAGE_BITS)
        return places_in(self.passages, passages)

    def rows_of(self, passages: Rows) -> Rows:
        """Return the row of each passage."""
        return passages >> PASSAGE_BITS

    def passages_of(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the passages of some rows, in their order, and for each passage its row's place in `rows`."""
        self.load(rows)
        known = self.passages
        starts, ends = (np.searchsorted(known, bound << PASSAGE_BITS) for bound in (rows, rows + 1))
        counts = ends - starts
        return known[ranges(starts, counts)], np.repeat(np.arange(len(rows)), counts)

    def all_passages_of(self, rows: Rows) -> Rows:
        """Return the passages of some rows, in ascending order."""
        return self.passages_of(np.sort(rows))[0]

    def occurrences(self, number: int) -> tuple[Rows, Codes]:
        """Return the read passages with a term of the query, and the codes of its postings."""
        at = np.flatnonzero(self._terms == number)
        return self._docs[at], self._codes[at]

    @property
    def count(self) -> int:
        """Number of passages whose statistics count."""
        return len(self.passages) if self.is_complete else self.state.texts

    @property
    def mean_length(self) -> float:
        """Mean length of these."""
        if self.is_complete:
            return float(self.lengths.mean(dtype=np.float64)) if len(self.lengths) else 0.0
        return self.state.length / max(self.state.texts, 1)

    def frequencies(self, words: Sequence[str]) -> dict[str, int]:
        """Return the number of passages that each of some terms occurs in."""
        found: dict[str, int] = {}
        for word in words:
            if word in self.numbers:
                number = self.numbers[word]
                known = len(self.occurrences(number)[0]) if self.is_complete else self.state.frequencies.get(number, 0)
                # Counts are those of the current items, and an earlier state, or a run, may have others.
                found[word] = known if self.is_complete or not self._source.shows_state else max(known, 1)
        others = [word for word in words if word not in found]
        if others:
            numbers = self._source.numbers_of(others)
            counts: dict[int, int]
            if self.state.is_shared and self.state.owners is not None:
                counts = frequencies_of_owners(self._source, numbers, self.state.owners, self.state.owned)
            else:
                query = _FREQUENCIES_ADMITTED if self.is_complete else _FREQUENCIES
                counts = dict(self._source.execute(query, terms=numbers).fetchall())
            found |= {word: int(counts.get(number, 0)) for word, number in zip(others, numbers, strict=True)}
        return found
