"""Searching a store of a PostgreSQL database: the `SearchSource` whose candidates come from SQL.

A search first reads the state of the store: how often its terms occur, and how many items the filter admits. Where
these are few, the terms and similarities of all their passages are read, and ranked as everywhere. Else the server
finds the best by words, through an index on hashes of terms of which the rarest are looked up, and the best by meaning:
among all through HNSW, among the items of a user by the signs of the components of each of their vectors, which an
index by user holds, and within another filter that admits few exactly. What belongs to these is read then. Their scores
are exact, and statistics of terms are those of the store, or of the users whose items alone are admitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.conditions import Operator
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Scope, Vector
from devmem.models.embedder import TokenCodes
from devmem.search.indexes.columns import Rows, Scores, distinct, places_in
from devmem.search.indexes.scoring import K1, B, impact_table, term_hash
from devmem.search.query import MAX_QUERY_CHARACTERS, SearchQuery
from devmem.search.source import FilterMatches
from devmem.search.token_matching import widened
from devmem.storage.postgres.database import Connection, Cursor, RowNumbers, composed
from devmem.storage.postgres.doc_values import PostgresDocValues
from devmem.storage.postgres.hnsw import HnswIndex, hnsw_condition, hnsw_operand, index_name
from devmem.storage.postgres.passages import (
    ALL_ADMITTED,
    NEAR,
    NOTHING_NEAR,
    Near,
    ReadPassages,
    StoreState,
    frequencies_of_owners,
    near_of,
    numbers,
    packed,
)
from devmem.storage.postgres.rows import fetch_bodies, hashed, of_item, owner_number, vectors_from
from devmem.storage.postgres.schema import PASSAGE_BITS, dropped, table_of
from devmem.storage.sql import EVENT_TIME, Dialect
from devmem.storage.tables import CURRENT, State, check_length, check_name
from devmem.text.analysis import terms
from devmem.text.query_text import QueryText

_FEW, _FEW_ADMITTED = 2_000, 2_000
"""Number of passages of a store, and of items that a filter admits, up to which all are read and ranked here."""
_MOST_EXACT: Final = 10_000
"""Number of admitted items whose vectors are all compared, by the server, where there is an HNSW index too."""
_MOST_OF_OWNERS: Final = 100_000
"""Number of passages of some users whose signs are all compared where there is an HNSW index too."""
_BY_SIGNS, _SHARE_BY_SIGNS = 4, 0.05
"""Number of passages that are found by their signs, to be compared exactly, for each that is wanted, and the least
share of those of the users: 4 % have 97 of a hundred of MiniLM's ten nearest among turns of chats."""
_POSTINGS: Final = 3_000
"""Number of postings of the rarest terms, by which passages are found that all terms then rank."""
_EACH: Final = 1.5
"""Number of passages that the server finds by words for each that is wanted: it counts a term once."""
_MOST_BY_HNSW: Final = 1_000
"""Maximum number of candidates that pgvector keeps while it searches; more are found by comparing with all."""
_HNSW_CANDIDATES: Final = 240
"""Minimum number of candidates that pgvector keeps while it searches."""
_SET_HNSW: Final = "SET LOCAL hnsw.ef_search = "
SEARCH_SETTINGS: Final = "; ".join(
    [
        f"SET LOCAL {name} = off"
        for name in ("jit", "enable_hashjoin", "enable_mergejoin", "enable_material", "enable_seqscan")
    ]
    # A setting of a library that is not loaded yet could not be checked, and would be refused when it is. Citus passes
    # on what SET sets, not what set_config() does.
    + ["SELECT '[0]'::vector", f"{_SET_HNSW}{_HNSW_CANDIDATES}", "SET LOCAL hnsw.iterative_scan = relaxed_order"]
)
"""Statements by which rows are looked up one by one until the transaction ends, and nothing is compiled."""

_STATE: Final = """
SELECT model, dimension, texts, total_length,
    EXISTS (SELECT FROM items WHERE store = {store} AND {shown} AND conversation IS NOT NULL)
    OR EXISTS (SELECT FROM items WHERE store = {store} AND {shown} AND session IS NOT NULL),
    EXISTS (SELECT FROM items WHERE store = {store} AND {shown} AND expires_at <= %(now)s),
    (SELECT string_agg(int4send(term) || int4send(texts), ''::bytea) FROM terms
        WHERE store = {store} AND term = ANY(%(terms)s)),
    (SELECT sum(total_length)::bigint FROM terms WHERE store = {store} AND term = ANY(%(owners)s::int[])),
    {admitted}, {hidden}
FROM stores WHERE store = {store}
"""
# A statement of its own: Citus does not send one that also reads the catalog to a single node.
_HAS_HNSW: Final = f"SELECT FROM pg_index WHERE indexrelid = {table_of('%(index)s')} AND indisvalid"
_ADMITTED: Final = (
    "(SELECT count(*) FROM (SELECT 1 FROM items WHERE store = {store} AND {condition} LIMIT %(most)s) AS admitted)"
)
_HIDDEN: Final = (
    "(SELECT count(*) FROM items WHERE store = {store} AND {shown} AND {scope} AND ({condition}) IS NOT TRUE)"
)


_IS_ADMITTED: Final = (
    f"EXISTS (SELECT FROM items WHERE items.store = {{store}} AND items.row = {{passage}} >> {PASSAGE_BITS} "
    "AND {condition})"
)
_BY_WORDS: Final = (
    f"{packed('int8send(passage)')} FROM (SELECT passage FROM passages AS found WHERE store = {{store}} "
    "AND {current} AND terms && {found_by} AND {owned} AND {admitted} "
    "ORDER BY ({score}) DESC, passage DESC LIMIT %(limit)s) AS best WHERE {checked}"
)
_DISTANCE: Final = "vector <#> %(query)s AS distance"
"""The negative inner product."""
_NEAREST: Final = (
    f"SELECT passage, {_DISTANCE} FROM vectors WHERE store = {{store}} AND is_current ORDER BY 2 LIMIT %(limit)s"
)
_NEAREST_ADMITTED: Final = (
    f"SELECT passage, {_DISTANCE} FROM {ALL_ADMITTED} AS found "
    f"CROSS JOIN {of_item('vectors', 'passage, vector', 'found.row')} ORDER BY 2 LIMIT %(limit)s"
)
_NEAREST_OF_OWNERS: Final = (
    f"SELECT found.passage, {_DISTANCE} FROM (SELECT passage FROM vectors WHERE store = {{store}} "
    "AND owner = ANY(%(owners)s::int[]) AND is_current "
    "ORDER BY signs <~> binary_quantize(%(query)s) LIMIT %(by_signs)s) AS found "
    "CROSS JOIN LATERAL (SELECT vector FROM vectors AS one WHERE one.store = {store} "
    "AND one.passage = found.passage OFFSET 0) AS vectors WHERE {admitted} ORDER BY 2 LIMIT %(limit)s"
)
# The condition and the cast, as literals, are what the index was made for.
_NEAREST_BY_HNSW: Final = (
    f"SELECT passage, {_DISTANCE} FROM (SELECT passage, vector FROM vectors AS found WHERE {{indexed}} "
    "AND {admitted} ORDER BY {operand} <#> %(query)s::halfvec({dimension}) LIMIT %(limit)s) AS vectors"
)
_CODES: Final = "SELECT passage, codes FROM tokens WHERE store = {store} AND passage = ANY(%(passages)s)"
_VECTORS: Final = (
    "SELECT passage, vector_send(vector) FROM vectors WHERE store = {store} AND passage = ANY(%(passages)s)"
)
_NO_ROWS: Final[Rows] = np.empty(0, dtype=np.int64)


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
        read = ReadPassages(self, numbers, state, self._query.vector)
        if state.is_small:
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
            near = NOTHING_NEAR if by_meaning is None else by_meaning.asked()
            read.load(np.concatenate([by_words.asked(), near[0]]) >> PASSAGE_BITS, near)
        return FilterMatches(filtered=state.hidden)

    def _read_state(self, where: Filter, terms: list[int], *, restricts: bool, narrows: bool) -> StoreState:
        hidden, values = "0", dict[str, object]()
        scoped = {name: getattr(where, name) for name in ("scope", "include_unscoped", "unbound", "scope_in")}
        scope = Filter(**scoped)
        if narrows or where != scope:
            condition, values = _named(*self._dialect.where(scope, self._now), "scope")
            hidden = _HIDDEN.replace("{scope}", condition)
        query = _STATE.replace("{admitted}", _ADMITTED if restricts else "NULL").replace("{hidden}", hidden)
        users = None if self.shows_state else _users(where)
        owners = None if users is None else [owner_number(self.store, user) for user in users]
        index = None if self.hnsw.is_there else self.execute(_HAS_HNSW, index=index_name(self.store))
        most = (_MOST_EXACT if owners is None else _FEW_ADMITTED) + 1
        values |= {"terms": [*terms, *(owners or ())], "owners": owners or [], "most": most}
        found = self.execute(query, now=self._now, **values).fetchone()
        if found is None:
            raise dropped(self._location)
        model, dimension, texts, length, conversations, expired, raw, owned_length, admitted, number = found
        if self._query.vector is not None:
            check_name(self._location, made=model, given=self._model)
            if dimension is not None:
                check_length(self._location, made=dimension, given=len(self._query.vector))
        is_small = texts <= _FEW if admitted is None else admitted <= _FEW_ADMITTED
        hashes, counts = np.frombuffer(raw or b"", dtype=">i4").reshape(-1, 2).T.tolist()
        frequencies: dict[int, int] = dict(zip(hashes, counts, strict=True))
        if index is not None:
            self.hnsw.is_there = index.fetchone() is not None
        of_owners = Filter(scope=Scope(user=where.scope.user), include_unscoped=where.include_unscoped)
        owned = sum(frequencies.get(owner, 0) for owner in owners or ())
        is_shared = not is_small and owners is not None and owned < texts
        if is_shared and owners is not None:
            # Scores are to tell nothing about the passages of others, and to be those of a store without these.
            frequencies = frequencies_of_owners(self, terms, owners, owned)
            texts, length = owned, owned_length or 0
        return StoreState(
            dimension=dimension,
            texts=int(texts),
            length=int(length),
            has_hnsw=self.hnsw.is_there and self.hnsw.least is not None and not self.shows_state,
            has_conversations=conversations,
            expired=expired,
            frequencies=frequencies,
            admitted=admitted,
            hidden=int(number),
            owners=owners,
            owned=owned,
            admits_owned=owners is not None and not narrows and where == of_owners,
            is_small=is_small,
            is_shared=is_shared,
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
        cursor = self.execute(_CODES, passages=RowNumbers(passages))
        # What is asked for next, while the server works.
        self.indexes.doc_values.ask(distinct(passages >> PASSAGE_BITS))
        found: dict[int, bytes] = dict(cursor.fetchall())
        codes = [found.get(passage, b"") for passage in passages.tolist()]
        codes = [each if len(each) % width == 0 else b"" for each in codes]
        counts = np.fromiter(map(len, codes), dtype=np.int64, count=len(codes)) // width
        return widened(np.frombuffer(b"".join(codes), dtype=np.uint8).reshape(-1, width)), counts


def _users(where: Filter) -> list[str | None] | None:
    """Return the users whose items alone a filter admits; None where it may admit those of others too."""
    if where.scope.user is not None:
        return [where.scope.user, None] if where.include_unscoped else [where.scope.user]
    if "user" in where.unbound:
        return [None]
    wanted = where.scope_in.get("user")
    return [str(user) for user in wanted.values] if wanted and wanted.operator is Operator.ONE_OF else None


def _named(condition: str, values: Sequence[object], prefix: str) -> tuple[str, dict[str, object]]:
    """Return a condition whose values have names, and the values by these."""
    named = {f"{prefix}_{at}": value for at, value in enumerate(values)}
    return condition.replace("?", "%s") % tuple(f"%({name})s" for name in named), named


class _WordQuery:
    """The terms of a text, the rarest first; see `WordQueryReader`."""

    def __init__(self, source: PostgresSource, read: ReadPassages, text: QueryText, *, is_main: bool) -> None:
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
            ((raw,),) = cursor.fetchall()
            self._found = limit, numbers(raw, ">i8")
        return self._found[1]

    def ask(self, limit: int) -> None:
        """Have the server find the best passages, while the search goes on."""
        if not self._terms:
            return
        state, owned = self._read.state, "true"
        rarest, postings = list[str](), 0
        if state.owners is not None:
            owned = f"terms && ARRAY[{','.join(map(str, state.owners))}]::int[]"
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
        query = query.replace("{score}", f"({' + '.join(parts)}) / ({norm})").replace("{owned}", owned)
        cursor = self._source.execute(_admitting(query, self._read, "best.passage"), limit=round(_EACH * limit))
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


def _admitting(query: str, read: ReadPassages, best: str) -> str:
    """Return a statement with the condition that a passage is of an admitted item, where that may not be so.

    It is looked up for each that is found; or only for the best of them, whose column is `best`, where numbers of users
    that are equal by chance are all that it can find.
    """
    state, found, checked = read.state, "true", "true"
    if state.admits_owned and not state.expired:
        checked = _IS_ADMITTED.replace("{passage}", best)
    elif state.admitted is not None or state.expired:
        found = _IS_ADMITTED.replace("{passage}", "found.passage")
    return query.replace("{admitted}", found).replace("{checked}", checked)


class _Postings:
    """The full-text index; see `PostingsReader`."""

    def __init__(self, source: PostgresSource, read: ReadPassages, text: QueryText) -> None:
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

    def __init__(self, source: PostgresSource, read: ReadPassages, dimension: int) -> None:
        """Search the vectors of the admitted items; `dimension` is their number of components."""
        self._source, self._read, self.dimension = source, read, dimension
        self._asked: tuple[int, Cursor] | None = None
        self._found: tuple[int, Near] = 0, NOTHING_NEAR
        """Number of passages that were asked for, and those that the server found."""

    def ask(self, query: Vector, limit: int) -> None:
        """Have the server find the nearest passages, while the search goes on."""
        self._asked = limit, self._find(query, limit)

    def asked(self) -> Near:
        """Return what the server found."""
        if self._asked is not None:
            limit, cursor = self._asked
            self._asked, self._found = None, (limit, near_of(cursor))
        return self._found[1]

    def _find(self, query: Vector, limit: int, *, exactly: bool = False) -> Cursor:
        state, values, by_index = self._read.state, {"query": query, "limit": limit}, False
        is_small = state.owners is None and state.admitted is not None and state.admitted <= _MOST_EXACT
        if state.owners is not None and state.owned <= _MOST_OF_OWNERS and not exactly:
            by_signs = max(_BY_SIGNS * limit, round(_SHARE_BY_SIGNS * state.owned))
            values |= {"owners": state.owners, "by_signs": by_signs}
            statement = _NEAREST_OF_OWNERS
        elif by_index := state.has_hnsw and not is_small and limit <= _MOST_BY_HNSW and not exactly:
            if limit > _HNSW_CANDIDATES:
                self._source.execute(f"{_SET_HNSW}{limit:d}")
            indexed = hnsw_condition(self._source.store, self.dimension)
            statement = _NEAREST_BY_HNSW.replace("{indexed}", indexed).replace("{dimension}", str(self.dimension))
            statement = statement.replace("{operand}", hnsw_operand(self.dimension))
        elif state.admitted is None and not state.expired:
            self._source.hnsw.note_exact_search()
            statement = _NEAREST
        else:
            statement = _NEAREST_ADMITTED
        statement = f"{NEAR} FROM ({statement}) AS nearest WHERE {{checked}}"
        statement = _admitting(statement, self._read, "nearest.passage")
        if not by_index:
            return self._source.execute(statement, **values)
        # Statistics that do not know a new store yet make sorting all of it seem cheaper than its index.
        self._source.execute("SET LOCAL enable_sort = off")
        found = self._source.execute(statement, **values)
        self._source.execute("SET LOCAL enable_sort = on")
        return found

    def nearest(self, query: Vector, limit: int, allowed: Rows | None = None) -> tuple[Rows, Vector]:
        """Return the admitted passages most similar to the query with their similarities, best first."""
        if allowed is not None or self._read.is_complete:
            passages = self._read.passages if allowed is None else allowed
            near = self.similarities(query, passages)
            known = ~np.isnan(near)
            passages, near = passages[known], near[known]
        else:
            if self._found[0] < limit:
                self.ask(query, limit)
                self.asked()
            passages, near = self._found[1]
            if len(passages) < limit and (self._read.state.has_hnsw or self._read.state.owners is not None):
                # HNSW still has vectors that were deleted, and of a filter that admits few both find too few.
                passages, near = near_of(self._find(query, limit, exactly=True))
        best = np.lexsort((-passages, -near))[: max(limit, 0)]
        return passages[best], near[best].astype(np.float32)

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
    passage_map: ReadPassages
    postings: _Postings
    vectors: _Vectors | None
