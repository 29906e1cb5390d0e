"""Searching a store of a PostgreSQL database: the `SearchSource` whose candidates come from SQL.

A search first reads the state of the store: how often its terms occur, and how many items the filter admits. Where
these are few, the terms and similarities of all their passages are read, and ranked as everywhere. Else the server
finds the best by words, through an index on hashes of terms of which the rarest are looked up, and the best by meaning,
through HNSW or, within a filter, exactly; what belongs to these is read then. Their scores are exact, and statistics of
terms are those of the whole store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Vector
from devmem.models.embedder import TokenCodes
from devmem.search.indexes.columns import Positions, Rows, Scores, distinct, places_in, ranges
from devmem.search.indexes.scoring import K1, B, Codes, impact_table, posting_codes, term_hash
from devmem.search.query import MAX_QUERY_CHARACTERS, SearchQuery
from devmem.search.source import FilterMatches
from devmem.search.token_matching import widened
from devmem.storage.postgres.database import Connection, Cursor, RowNumbers, composed
from devmem.storage.postgres.doc_values import PostgresDocValues
from devmem.storage.postgres.hnsw import HnswIndex, hnsw_condition, hnsw_operand, index_name
from devmem.storage.postgres.rows import fetch_bodies, hashed, of_item, vectors_from
from devmem.storage.postgres.schema import PASSAGE_BITS, dropped, table_of
from devmem.storage.sql import EVENT_TIME, Dialect
from devmem.storage.tables import CURRENT, State, check_length, check_name
from devmem.text.analysis import terms
from devmem.text.query_text import QueryText

_FEW, _FEW_ADMITTED = 2_000, 2_000
"""Number of passages of a store, and of items that a filter admits, up to which all are read and ranked here."""
_MOST_EXACT: Final = 10_000
"""Number of admitted items whose vectors are all compared, by the server, where there is an HNSW index too."""
_POSTINGS: Final = 3_000
"""Number of postings of the rarest terms, by which passages are found that all terms then rank."""
_EACH: Final = 1.5
"""Number of passages that the server finds by words for each that is wanted: it counts a term once."""
_MOST_BY_HNSW: Final = 1_000
"""Maximum number of candidates that pgvector keeps while it searches; more are found by comparing with all."""
_HNSW_CANDIDATES: Final = 240
"""Minimum number of candidates that pgvector keeps while it searches."""
SEARCH_SETTINGS: Final = "; ".join(
    f"SET LOCAL {name} = off"
    for name in ("jit", "enable_hashjoin", "enable_mergejoin", "enable_material", "enable_seqscan")
)
"""Statements by which rows are looked up one by one until the transaction ends, and nothing is compiled."""

_STATE: Final = """
SELECT model, dimension, texts, total_length,
    EXISTS (SELECT FROM items WHERE store = {store} AND {shown} AND conversation IS NOT NULL)
    OR EXISTS (SELECT FROM items WHERE store = {store} AND {shown} AND session IS NOT NULL),
    EXISTS (SELECT FROM items WHERE store = {store} AND {shown} AND expires_at <= %(now)s),
    (SELECT string_agg(int4send(term) || int4send(texts), ''::bytea) FROM terms
        WHERE store = {store} AND term = ANY(%(terms)s)),
    {admitted}, {hidden}
FROM stores WHERE store = {store}
"""
# A statement of its own: Citus does not send one that also reads the catalog to a single node.
_HAS_HNSW: Final = f"SELECT FROM pg_index WHERE indexrelid = {table_of('%(index)s')} AND indisvalid"
_ADMITTED: Final = (
    "(SELECT count(*) FROM (SELECT 1 FROM items WHERE store = {store} AND {condition} "
    f"LIMIT {_MOST_EXACT + 1}) AS admitted)"
)
_HIDDEN: Final = (
    "(SELECT count(*) FROM items WHERE store = {store} AND {shown} AND {scope} AND ({condition}) IS NOT TRUE)"
)
_PASSAGES: Final = (
    "SELECT passages.passage, -(vector <#> %(query)s), length, "
    "CASE WHEN terms && %(terms)s THEN array_send(terms) END, CASE WHEN terms && %(terms)s THEN counts END "
    "FROM {found} AS found CROSS JOIN "
    + of_item("passages", "passage, length, terms, counts", "found.row")
    + " LEFT JOIN LATERAL (SELECT vector FROM vectors AS one WHERE one.store = {store} "
    "AND one.passage = passages.passage OFFSET 0) AS vectors ON true"
)
_ALL_ADMITTED: Final = "(SELECT row FROM items WHERE store = {store} AND {condition} OFFSET 0)"
# Whatever finds an item has compared it with the filter.
_OF_ROWS: Final = "(SELECT unnest(%(rows)s::bigint[]) AS row)"
_IS_ADMITTED: Final = (
    f"EXISTS (SELECT FROM items WHERE items.store = {{store}} AND items.row = {{passage}} >> {PASSAGE_BITS} "
    "AND {condition})"
)
_BY_WORDS: Final = (
    "SELECT passage FROM passages AS found WHERE store = {store} AND {current} AND terms && {found_by} AND {admitted} "
    "ORDER BY ({score}) DESC, passage DESC LIMIT %(limit)s"
)
_DISTANCE: Final = "vector <#> %(query)s"
"""The negative inner product."""
_NEAREST: Final = (
    f"SELECT passage, {_DISTANCE} FROM vectors WHERE store = {{store}} AND is_current ORDER BY 2 LIMIT %(limit)s"
)
_NEAREST_ADMITTED: Final = (
    f"SELECT passage, {_DISTANCE} FROM {_ALL_ADMITTED} AS found "
    f"CROSS JOIN {of_item('vectors', 'passage, vector', 'found.row')} ORDER BY 2 LIMIT %(limit)s"
)
# The condition and the cast, as literals, are what the index was made for.
_NEAREST_BY_HNSW: Final = (
    f"SELECT passage, {_DISTANCE} FROM (SELECT passage, vector FROM vectors AS found WHERE {{indexed}} "
    "AND {admitted} ORDER BY {operand} <#> %(query)s::halfvec({dimension}) LIMIT %(limit)s) AS vectors ORDER BY 2"
)
_PREPARE_HNSW: Final = (
    # A setting of a library that is not loaded yet could not be checked, and would be refused when it is.
    "SELECT '[0]'::vector",
    # Citus passes on what SET sets, not what set_config() does.
    "SET LOCAL hnsw.ef_search = {candidates}",
    "SET LOCAL hnsw.iterative_scan = relaxed_order",
)
_FREQUENCIES: Final = "SELECT term, texts FROM terms WHERE store = {store} AND term = ANY(%(terms)s)"
_FREQUENCIES_ADMITTED: Final = (
    f"SELECT term, count(DISTINCT passage) FROM {_ALL_ADMITTED} AS found "
    f"CROSS JOIN {of_item('passages', 'passage, terms', 'found.row')}, unnest(terms) AS term "
    "WHERE term = ANY(%(terms)s) GROUP BY term"
)
_CODES: Final = "SELECT passage, codes FROM tokens WHERE store = {store} AND passage = ANY(%(passages)s)"
_VECTORS: Final = (
    "SELECT passage, vector_send(vector) FROM vectors WHERE store = {store} AND passage = ANY(%(passages)s)"
)
_ARRAY_HEAD: Final = 20
"""Number of bytes before the first element in the binary format of an array of one dimension."""
_NO_ROWS: Final[Rows] = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """A store, and what the filter admits of it."""

    dimension: int | None
    texts: int
    length: int
    has_hnsw: bool
    has_conversations: bool
    expired: bool
    """Whether items that have expired are still there."""
    frequencies: dict[int, int]
    admitted: int | None
    """Number of admitted items, at most one more than `_MOST_EXACT`; None where the filter admits all."""
    hidden: int


class PostgresSource:
    """A store as of the connection's read transaction, for one search; see `SearchSource`."""

    indexes: _Indexes
    """They show what the filter admits, once `apply_filter` was called."""

    def __init__(
        self,
        connection: Connection,
        location: str,
        dialect: Dialect,
        shown: State,
        query: SearchQuery,
        *,
        store: int,
        model: str | None,
        now: float,
        hnsw: HnswIndex,
    ) -> None:
        """Prepare a search.

        Args:
            connection: in a read transaction that began with `SEARCH_SETTINGS`.
            location: of the store, without a password.
            dialect: of the store's statements.
            shown: the versions that are searched.
            query: what is searched for.
            store: number of the store.
            model: name of the model that made the query's vector; None when it is not known.
            now: seconds since the epoch.
            hnsw: the index of the store's vectors.
        """
        self.connection, self._location, self.store, self._query = connection, location, store, query
        self._model, self._now, self.hnsw = model, now, hnsw
        focus = query.ranking.focus and query.weights is None
        self._text = QueryText.of(query.text[:MAX_QUERY_CHARACTERS], focus=focus)
        self._dialect, self._shown, self.shows_state = dialect, shown, shown is not CURRENT
        self._condition, self._values = shown.shown, dict[str, object]()

    def execute(self, statement: str, /, **values: object) -> Cursor:
        """Run a statement on the admitted items; its rows are waited for when they are asked for."""
        number = f"{self.store:d}"
        text = statement.replace("{condition}", self._condition).replace("{shown}", self._shown.shown)
        text = text.replace("{store}", number).replace("%(store)s", number)
        return self.connection.execute(composed(text), {**self._values, **values}, binary=True)

    def apply_filter(self, where: Filter, period: tuple[float, float] | None) -> FilterMatches:
        """Restrict the indexes to what a filter admits."""
        condition, values = self._dialect.where(where, self._now)
        if period is not None:
            condition, values = f"{condition} AND {EVENT_TIME} >= ? AND {EVENT_TIME} < ?", [*values, *period]
        condition, self._values = _named(condition, values, "admitted")
        self._condition = f"{self._shown.shown} AND {condition}"
        restricts = period is not None or not where.everything() or self.shows_state
        every = list(dict.fromkeys([*self._text.term_weights(), *terms(self._text.asked)]))
        numbers = dict(zip(every, self.numbers_of(every), strict=True))
        state = self._read_state(where, list(numbers.values()), restricts=restricts, narrows=period is not None)
        read = _Read(self, numbers, state, self._query.vector)
        if state.texts <= _FEW if state.admitted is None else state.admitted <= _FEW_ADMITTED:
            read.read_all()
        self.indexes = _Indexes(
            doc_values=PostgresDocValues(self, self._query.vector, has_conversations=state.has_conversations),
            passage_map=read,
            postings=_Postings(self, read, self._text),
            vectors=None if state.dimension is None else _Vectors(self, read, state.dimension),
        )
        if not read.is_complete:
            # The server finds the candidates by words and by meaning at once; what belongs to them is read in one step.
            limit = max(self._query.candidates, self._query.limit)
            by_words, by_meaning = self.indexes.postings.main, self.indexes.vectors
            by_words.ask(limit)
            if by_meaning is not None and self._query.vector is not None:
                by_meaning.ask(self._query.vector, limit)
            found = [by_words.asked(), _NO_ROWS if by_meaning is None else by_meaning.asked()]
            read.load(np.concatenate(found) >> PASSAGE_BITS)
        return FilterMatches(filtered=state.hidden)

    def _read_state(self, where: Filter, numbers: list[int], *, restricts: bool, narrows: bool) -> _State:
        hidden, values = "0", dict[str, object]()
        scoped = {name: getattr(where, name) for name in ("scope", "include_unscoped", "unbound", "scope_in")}
        scope = Filter(**scoped)
        if narrows or where != scope:
            condition, values = _named(*self._dialect.where(scope, self._now), "scope")
            hidden = _HIDDEN.replace("{scope}", condition)
        query = _STATE.replace("{admitted}", _ADMITTED if restricts else "NULL").replace("{hidden}", hidden)
        index = self.execute(_HAS_HNSW, index=index_name(self.store))
        found = self.execute(query, now=self._now, terms=numbers, **values).fetchone()
        if found is None:
            raise dropped(self._location)
        model, dimension, texts, length, conversations, expired, raw, admitted, number = found
        if self._query.vector is not None:
            check_name(self._location, made=model, given=self._model)
            if dimension is not None:
                check_length(self._location, made=dimension, given=len(self._query.vector))
        pairs = np.frombuffer(raw or b"", dtype=">i4").reshape(-1, 2).tolist()
        return _State(
            dimension=dimension,
            texts=int(texts),
            length=int(length),
            has_hnsw=index.fetchone() is not None and self.hnsw.least is not None and not self.shows_state,
            has_conversations=conversations,
            expired=expired,
            frequencies={int(term): int(texts) for term, texts in pairs},
            admitted=admitted,
            hidden=int(number),
        )

    def numbers_of(self, words: Sequence[str]) -> list[int]:
        """Return the numbers by which the database knows some terms of the store."""
        hashes = np.fromiter(map(term_hash, words), dtype=np.uint64, count=len(words))
        return [int(number) for number in hashed(self.store, hashes).tolist()]

    def items(self, rows: Sequence[int]) -> dict[int, MemoryItem]:
        """Return items by row number, without their embeddings; one that is not there is `MISSING`."""
        return fetch_bodies(self.connection, self.store, rows)

    def token_codes(self, passages: Rows, width: int) -> tuple[TokenCodes, NDArray[np.int64]]:
        """Return the token codes of passages, joined in their order, and the number of codes of each."""
        found: dict[int, bytes] = dict(self.execute(_CODES, passages=RowNumbers(passages)).fetchall())
        codes = [found.get(passage, b"") for passage in passages.tolist()]
        codes = [each if len(each) % width == 0 else b"" for each in codes]
        counts = np.fromiter(map(len, codes), dtype=np.int64, count=len(codes)) // width
        return widened(np.frombuffer(b"".join(codes), dtype=np.uint8).reshape(-1, width)), counts


def _named(condition: str, values: Sequence[object], prefix: str) -> tuple[str, dict[str, object]]:
    """Return a condition whose values have names, and the values by these."""
    named = {f"{prefix}_{at}": value for at, value in enumerate(values)}
    return condition.replace("?", "%s") % tuple(f"%({name})s" for name in named), named


class _Read:
    """The passages that a search has read: their similarities, and where terms of the query occur in them.

    They show which passages an item has, too; see `PassageMapReader`.
    """

    singles = False
    """Nobody counted whether some item has more than one."""

    def __init__(self, source: PostgresSource, numbers: Mapping[str, int], state: _State, query: Vector | None) -> None:
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
        self._docs: Rows = _NO_ROWS
        self._codes: Codes = np.empty(0, dtype=np.uint16)

    def read_all(self) -> None:
        """Read all passages that may be found."""
        self._add(self._source.execute(_PASSAGES.replace("{found}", _ALL_ADMITTED), **self._values()).fetchall())
        self.is_complete = True

    def _values(self) -> dict[str, object]:
        return {"query": self._query, "terms": list(self.numbers.values())}

    def load(self, rows: Rows) -> None:
        """Read those of the items that were not read; one that is not there has no passages."""
        new = _NO_ROWS if self.is_complete else distinct(rows[places_in(self._rows, rows) < 0])
        if len(new):
            self._rows = np.sort(np.concatenate([self._rows, new]))
            query = _PASSAGES.replace("{found}", _OF_ROWS)
            self._add(self._source.execute(query, rows=RowNumbers(new), **self._values()).fetchall())

    def _add(self, found: Sequence[tuple[Any, ...]]) -> None:
        if not found:
            return
        passages, similarity, lengths, numbers, counts = zip(*found, strict=True)
        new = np.array(passages, dtype=np.int64)
        own_lengths = np.array(lengths, dtype=np.float32)
        with_terms = [at for at, each in enumerate(numbers) if each]
        if with_terms:
            joined = np.frombuffer(b"".join(counts[at] for at in with_terms), dtype=np.uint8)
            docs = np.repeat(with_terms, [len(counts[at]) for at in with_terms])
            # Each element follows its length.
            raw = b"".join(numbers[at][_ARRAY_HEAD:] for at in with_terms)
            flat = np.frombuffer(raw, dtype=">i4")[1::2].astype(np.int32)
            self._terms = np.append(self._terms, flat)
            self._docs = np.append(self._docs, new[docs])
            self._codes = np.append(self._codes, posting_codes(joined, own_lengths[docs]))
        every = np.append(self.passages, new)
        order = np.argsort(every)
        self.passages = every[order]
        self.similarity = np.append(self.similarity, np.array(similarity, dtype=np.float64))[order]
        self.lengths = np.append(self.lengths, own_lengths)[order]

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
            query = _FREQUENCIES_ADMITTED if self.is_complete else _FREQUENCIES
            counts: dict[int, int] = dict(self._source.execute(query, terms=numbers).fetchall())
            found |= {word: int(counts.get(number, 0)) for word, number in zip(others, numbers, strict=True)}
        return found


class _WordQuery:
    """The terms of a text, the rarest first; see `WordQueryReader`."""

    def __init__(self, source: PostgresSource, read: _Read, text: QueryText, *, is_main: bool) -> None:
        """Look the terms up; `is_main` is whether the text is the one whose terms are read with the passages."""
        self._source, self._read, self._is_main = source, read, is_main
        weights = text.term_weights()
        self._frequencies = read.frequencies(list(weights))
        occurring = sorted((word for word in weights if self._frequencies[word]), key=self._frequencies.__getitem__)
        numbers = source.numbers_of(occurring)
        self._terms: list[tuple[int, int, np.float32]] = []
        """Number, frequency and weight of each term."""
        for word, number in zip(occurring, numbers, strict=True):
            frequency = self._frequencies[word]
            idf = np.log1p((max(read.count - frequency, 0) + 0.5) / (frequency + 0.5))
            self._terms.append((number, frequency, np.float32(weights[word] * idf)))
        self.ceiling = (K1 + 1) * float(sum(idf for *_, idf in self._terms))
        """Score of a short text that repeats every term; 0 when none occurs."""
        self._asked: tuple[int, Cursor] | None = None
        self._found: tuple[int, Rows] = 0, _NO_ROWS
        """Number of passages that were asked for, and those that the server found."""

    @property
    def count(self) -> int:
        """Number of passages that may be found."""
        return self._read.count

    def frequency(self, term: str) -> int:
        """Return the number of passages that a term occurs in."""
        if term not in self._frequencies:
            self._frequencies |= self._read.frequencies([term])
        return self._frequencies[term]

    def asked(self) -> Rows:
        """Return what the server found."""
        if self._asked is not None:
            limit, cursor = self._asked
            self._asked = None
            self._found = limit, np.array([passage for (passage,) in cursor.fetchall()], dtype=np.int64)
        return self._found[1]

    def ask(self, limit: int) -> None:
        """Have the server find the best passages, while the search goes on."""
        if not self._terms:
            return
        rarest, postings = list[str](), 0
        for number, frequency, _ in self._terms:
            # Common terms alone find what is wanted, however many postings they have.
            if postings >= limit and postings + frequency > _POSTINGS:
                break
            rarest.append(str(number))
            postings += frequency
        parts = [
            f"CASE WHEN ({number}) = ANY(terms) THEN {float(idf)!r}::float8 ELSE 0 END"
            for number, _, idf in self._terms
        ]
        norm = f"{1 + K1 * (1 - B)!r}::float8 + {K1 * B / max(self._read.mean_length, 1e-9)!r}::float8 * length"
        current = "true" if self._source.shows_state else "is_current"
        query = _BY_WORDS.replace("{current}", current).replace("{found_by}", f"ARRAY[{','.join(rarest)}]::int[]")
        query = query.replace("{score}", f"({' + '.join(parts)}) / ({norm})")
        cursor = self._source.execute(_admitting(query, self._read, "found.passage"), limit=round(_EACH * limit))
        self._asked = limit, cursor

    def top(self, limit: int) -> Rows:
        """Return the admitted passages with the highest scores above 0, best first."""
        if not self._terms or limit < 1:
            return _NO_ROWS
        if self._read.is_complete and self._is_main:
            found = self._read.passages
        else:
            if self._found[0] < limit:
                self.ask(limit)
            found = self.asked()
            if not self._is_main:
                return found[:limit]
        scores = self.scores_of(found)
        best = np.lexsort((-found, -scores))[:limit]
        return found[best[scores[best] > 0]]

    def scores_of(self, passages: Rows) -> NDArray[np.float64]:
        """Return the BM25 score of some passages; 0 for one that is not there."""
        places = self._read.places(passages)
        known = self._read.passages
        total: Scores = np.zeros(len(known), dtype=np.float32)
        table = impact_table(self._read.mean_length)
        for number, _, idf in self._terms:
            docs, codes = self._read.occurrences(number)
            total[np.searchsorted(known, docs)] += idf * table.take(codes)
        return np.where(places >= 0, total[places], 0.0).astype(np.float64) if len(known) else np.zeros(len(passages))


def _admitting(query: str, read: _Read, passage: str) -> str:
    """Return a statement with the condition that a passage is of an admitted item, where that may not be so."""
    restricts = read.state.admitted is not None or read.state.expired
    return query.replace("{admitted}", _IS_ADMITTED.replace("{passage}", passage) if restricts else "true")


class _Postings:
    """The full-text index; see `PostingsReader`."""

    def __init__(self, source: PostgresSource, read: _Read, text: QueryText) -> None:
        self._source, self._read, self._text = source, read, text
        self.main = _WordQuery(source, read, text, is_main=True)
        """The terms of the query."""

    def query(self, text: QueryText, allowed: Rows | None = None) -> _WordQuery:  # noqa: ARG002 - the search's
        """Look up the terms of a text among the admitted passages."""
        return self.main if text == self._text else _WordQuery(self._source, self._read, text, is_main=False)

    def frequencies(self, terms: Sequence[str], allowed: Rows | None = None) -> dict[str, int]:  # noqa: ARG002
        """Return the number of admitted passages that each of some terms occurs in."""
        return self._read.frequencies(terms)


class _Vectors:
    """The vectors; see `VectorsReader`."""

    def __init__(self, source: PostgresSource, read: _Read, dimension: int) -> None:
        """Search the vectors of the admitted items; `dimension` is their number of components."""
        self._source, self._read, self.dimension = source, read, dimension
        self._asked: tuple[int, Cursor] | None = None
        self._found: tuple[int, list[tuple[int, float]]] = 0, []
        """Number of passages that were asked for, and those that the server found, with their distances."""

    def ask(self, query: Vector, limit: int) -> None:
        """Have the server find the nearest passages, while the search goes on."""
        self._asked = limit, self._find(query, limit)

    def asked(self) -> Rows:
        """Return what the server found."""
        if self._asked is not None:
            limit, cursor = self._asked
            self._asked, self._found = None, (limit, cursor.fetchall())
        return np.array([passage for passage, _ in self._found[1]], dtype=np.int64)

    def _find(self, query: Vector, limit: int, *, exactly: bool = False) -> Cursor:
        state, values = self._read.state, {"query": query, "limit": limit}
        is_small = state.admitted is not None and state.admitted <= _MOST_EXACT
        if state.has_hnsw and not is_small and limit <= _MOST_BY_HNSW and not exactly:
            candidates = min(_MOST_BY_HNSW, max(_HNSW_CANDIDATES, limit))
            for setting in _PREPARE_HNSW:
                self._source.execute(setting.replace("{candidates}", f"{candidates:d}"))
            indexed = hnsw_condition(self._source.store, self.dimension)
            statement = _NEAREST_BY_HNSW.replace("{indexed}", indexed).replace("{dimension}", str(self.dimension))
            statement = statement.replace("{operand}", hnsw_operand(self.dimension))
            return self._source.execute(_admitting(statement, self._read, "found.passage"), **values)
        if state.admitted is None and not state.expired:
            self._source.hnsw.note_exact_search()
            return self._source.execute(_NEAREST, **values)
        return self._source.execute(_NEAREST_ADMITTED, **values)

    def nearest(self, query: Vector, limit: int, allowed: Rows | None = None) -> tuple[Rows, Vector]:
        """Return the admitted passages most similar to the query with their similarities, best first."""
        if allowed is not None or self._read.is_complete:
            passages = self._read.passages if allowed is None else allowed
            near = self.similarities(query, passages)
            best = np.lexsort((-passages, -near))[: max(limit, 0)]
            best = best[~np.isnan(near[best])]
            return passages[best], near[best].astype(np.float32)
        if self._found[0] < limit:
            self.ask(query, limit)
            self.asked()
        found = self._found[1]
        if len(found) < limit and self._read.state.has_hnsw:
            # Vectors that were deleted are still in the index, and of a filter that admits few it finds too few.
            found = self._find(query, limit, exactly=True).fetchall()
        passages = np.array([passage for passage, _ in found[:limit]], dtype=np.int64)
        return passages, np.array([-distance for _, distance in found[:limit]], dtype=np.float32)

    def similarities(self, query: Vector, passages: Rows) -> NDArray[np.float64]:  # noqa: ARG002 - the search's
        """Return the cosine of the search's query and each passage; NaN for a passage that has no vector."""
        places = self._read.places(passages)
        return np.append(self._read.similarity, np.nan)[places]

    def gather(self, passages: Rows) -> Vector:
        """Return the vectors of some passages, shape (n, dimension); zeros for a passage that has none."""
        rows = self._source.execute(_VECTORS, passages=RowNumbers(passages)).fetchall()
        gathered = np.zeros((len(passages), self.dimension), dtype=np.float32)
        if rows:
            known, raw = zip(*rows, strict=True)
            # Of all at once: one by one they take several times as long.
            order = np.argsort(known)
            at = places_in(np.array(known, dtype=np.int64)[order], passages)
            gathered[at >= 0] = vectors_from(raw, self.dimension)[order][at[at >= 0]]
        return gathered


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Indexes:
    """See `IndexesReader`; they show what the filter admits."""

    doc_values: PostgresDocValues
    passage_map: _Read
    postings: _Postings
    vectors: _Vectors | None
