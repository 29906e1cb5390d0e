"""Sign codes of a store's vectors, in blocks in the table `vector_codes`, of which a process keeps all in memory.

A block has the codes of the passages that had a vector when it was made. What no block has yet are the vectors of the
tail, and those that were made later than their item and committed since; a process computes their codes by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from devmem.search.indexes.codes import CodeQuery, SignCodes, code_length, sign_codes
from devmem.search.indexes.columns import Positions, Rows, locked
from devmem.storage.postgres.database import Connection, RowNumbers
from devmem.storage.postgres.rows import of_item, vectors_from
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.postgres.server.term_texts import numbers_from, of_store

_BLOCKS: Final = "SELECT passages, codes FROM vector_codes WHERE store = %s AND block = ANY(%s)"
_VECTORS: Final = (
    "SELECT vectors.passage, vector_send(vector) FROM unnest(%(rows)s::bigint[]) AS new(row) CROSS JOIN "
    + of_item("vectors", "passage, vector", "new.row")
)
BATCH_SIZE: Final = 10_000
"""Number of items whose vectors are read by one statement: some 15 MB."""
_MOST_KEPT: Final = 1.25
"""Passages that are kept in memory, for each that is in a block, before what was deleted is dropped."""
_NO_PASSAGES: Final[Rows] = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class CodedPassages:
    """The codes of n passages."""

    passages: Rows
    """Ascending."""
    codes: SignCodes
    """Row by row the passages'; shape (n, bytes)."""

    @classmethod
    def of(cls, parts: Sequence[CodedPassages]) -> CodedPassages:
        """Return several parts as one, each passage once."""
        passages = np.concatenate([part.passages for part in parts])
        codes = np.concatenate([part.codes for part in parts])
        if bool((passages[1:] > passages[:-1]).all()):
            return cls(passages, codes)
        passages, places = np.unique(passages, return_index=True)
        return cls(passages, codes[places])

    def where(self, places: Positions) -> CodedPassages:
        """Return the passages at some ascending places."""
        return CodedPassages(self.passages[places], self.codes[places])

    def nearest(self, query: CodeQuery, limit: int, places: Positions | None = None) -> Rows:
        """Return the `limit` passages that are probably the nearest to a query; None for places takes all."""
        if places is None:
            return self.passages[query.nearest(self.codes, limit)]
        return self.passages[places[query.nearest(self.codes.take(places, axis=0), limit)]]


def no_codes(dimension: int) -> CodedPassages:
    """Return the codes of no passage."""
    return CodedPassages(_NO_PASSAGES, np.empty((0, code_length(dimension)), dtype=np.uint8))


def read_codes(connection: Connection, store: int, dimension: int, rows: Rows) -> CodedPassages:
    """Compute the codes of those of some items that have vectors of this dimension."""
    parts = [no_codes(dimension)]
    for start in range(0, len(rows), BATCH_SIZE):
        parameters = {"rows": RowNumbers(rows[start : start + BATCH_SIZE])}
        read = connection.execute(of_store(_VECTORS, store), parameters, binary=True).fetchall()
        found = [(passage, raw) for passage, raw in read if len(raw) == 4 * (dimension + 1)]
        if found:
            vectors = vectors_from(b"".join(vector for _, vector in found), len(found), dimension)
            passages = np.array([passage for passage, _ in found], dtype=np.int64)
            parts.append(CodedPassages(passages, sign_codes(vectors)))
    return CodedPassages.of(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBlocks:
    """Blocks of a store, and the rows whose vectors are in none, as of one moment."""

    numbers: tuple[int, ...]
    """Of the blocks, ascending."""
    passages: int
    """Number of passages in all blocks."""
    tail: Rows
    """Rows of items that are in no block, ascending."""
    late: Rows
    """Rows of items that got their vectors later than they were stored, and are in no block with them, ascending."""


def codes_size(passages: int, dimension: int) -> int:
    """Return the bytes that the codes of a number of passages take in memory."""
    return passages * (code_length(dimension) + 8)


class CodeCache:
    """All codes of a store, kept in memory. Thread-safe.

    The codes of a block never change once they are committed, nor does the vector of a passage, until the model is
    replaced.
    """

    def __init__(self, store: int) -> None:
        self._lock = threading.Lock()
        self._store = store
        self._generation: Hashable = None
        self._dimension = 1
        self._forget()

    def _forget(self) -> None:
        self._blocks: tuple[int, ...] = ()
        self._coded = no_codes(self._dimension)
        self._new = no_codes(self._dimension)
        self._asked = _NO_PASSAGES

    def read(
        self, connection: Connection, generation: Hashable, dimension: int, blocks: CodeBlocks
    ) -> tuple[CodedPassages, CodedPassages]:
        """Return the codes of the blocks, and those of the rest, as of the connection's transaction.

        Passages that were deleted may be among them.

        Args:
            connection: in a read transaction.
            generation: of the contents and the store; another one than before may have other vectors, or numbers.
            dimension: number of components of its vectors.
            blocks: what the store has.
        """
        return locked(self._lock, lambda: self._read(connection, generation, dimension, blocks))

    def _read(
        self, connection: Connection, generation: Hashable, dimension: int, blocks: CodeBlocks
    ) -> tuple[CodedPassages, CodedPassages]:
        if (generation, dimension) != (self._generation, self._dimension):
            self._generation, self._dimension = generation, dimension
            self._forget()
        if blocks.numbers != self._blocks:
            self._coded = self._of_blocks(connection, blocks)
            self._blocks = blocks.numbers
        self._new = self._of_rest(connection, blocks)
        return self._coded, self._new

    def _of_blocks(self, connection: Connection, blocks: CodeBlocks) -> CodedPassages:
        """Read the blocks that are new: where others are gone, their passages are in the new ones, or deleted."""
        new = [block for block in blocks.numbers if block not in self._blocks]
        joined = CodedPassages.of([self._coded, *self._read_blocks(connection, new)])
        if len(joined.passages) <= blocks.passages * _MOST_KEPT:
            return joined
        return CodedPassages.of([no_codes(self._dimension), *self._read_blocks(connection, blocks.numbers)])

    def _read_blocks(self, connection: Connection, blocks: Sequence[int]) -> list[CodedPassages]:
        found = connection.execute(_BLOCKS, (self._store, list(blocks)), binary=True).fetchall()
        return [block_from(passages, codes, self._dimension) for passages, codes in found]

    def _of_rest(self, connection: Connection, uncoded: CodeBlocks) -> CodedPassages:
        """Compute the codes that are not known yet; what waits for its vector is asked for again when it has it."""
        rows = np.union1d(uncoded.tail, uncoded.late)
        known = self._new.passages >> PASSAGE_BITS
        kept = self._new.where(np.flatnonzero(np.isin(known, rows)))
        without = np.setdiff1d(uncoded.late, known)
        missing = np.union1d(np.setdiff1d(uncoded.tail, self._asked), without)
        if len(missing):
            kept = CodedPassages.of([kept, read_codes(connection, self._store, self._dimension, missing)])
        self._asked = rows
        return kept

    def clear(self) -> None:
        """Forget everything."""
        locked(self._lock, self._forget)


def block_from(passages: bytes, codes: bytes, dimension: int) -> CodedPassages:
    """Return the codes of a block as its row has them."""
    width = code_length(dimension)
    return CodedPassages(
        numbers_from(passages, "<i8").astype(np.int64), np.frombuffer(codes, dtype=np.uint8).reshape(-1, width)
    )
