"""The indexes as the pipeline reads them: those in memory, or those that a server holds."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.row_column import Mask, Rows
from devmem.indexes.top_k import Positions
from devmem.model.items import Vector


class DocValuesReader(Protocol):
    """Fields of items by position; see `DocValues`."""

    @property
    def has_conversations(self) -> bool:
        """Whether any item is or was of a conversation."""
        ...

    def positions(self, rows: Rows, /) -> Positions:
        """Return the position of each row; -1 for one that is not there."""
        ...

    def rows(self, positions: Positions, /) -> Rows:
        """Return the rows at some positions."""
        ...

    def column(self, name: str, /) -> NDArray[Any]:
        """Return a column, which has a value at each position that was returned before."""
        ...

    def speakers(self, positions: Positions, /) -> list[str | None]:
        """Return the speaker of each item at some positions."""
        ...

    def around(self, positions: Positions, reach: int, visible: Mask | None = None, /) -> list[Positions]:
        """Return the positions of the `reach` items before each in its conversation, then those after."""
        ...

    def with_cues(self, cues: int, admitted: Mask | None = None, /) -> Positions:
        """Return the positions of the admitted items whose text has one of some cues."""
        ...


class PassageMapReader(Protocol):
    """Which passages an item has; see `PassageMap`."""

    @property
    def singles(self) -> bool:
        """Whether no item has more than one passage."""
        ...

    def rows_of(self, passages: Rows, /) -> Rows:
        """Return the row of each passage."""
        ...

    def passages_of(self, rows: Rows, /) -> tuple[Rows, Rows]:
        """Return the passages of some rows, and for each passage its row's place in `rows`."""
        ...

    def all_passages_of(self, rows: Rows, /) -> Rows:
        """Return the passages of some rows, in ascending order."""
        ...


class WordQueryReader(Protocol):
    """The terms of a text and their statistics; see `WordQuery`."""

    @property
    def count(self) -> int:
        """Number of passages that may be found."""
        ...

    @property
    def ceiling(self) -> float:
        """Score of a short text that repeats every term; 0 when none occurs."""
        ...

    def frequency(self, term: str, /) -> int:
        """Return the number of passages that a term occurs in."""
        ...

    def top(self, limit: int, /) -> Rows:
        """Return the passages with the highest scores above 0, best first."""
        ...

    def scores_of(self, passages: Rows, /) -> NDArray[np.float64]:
        """Return the BM25 score of some passages; 0 for one that is not there."""
        ...


class PostingsReader(Protocol):
    """The full-text index; see `PostingsIndex`."""

    def query(self, text: str, allowed: Rows | None = None, /) -> WordQueryReader:
        """Look up the terms of a text among the allowed passages; None allows all."""
        ...


class VectorsReader(Protocol):
    """The vectors; see `VectorReader`."""

    @property
    def dimension(self) -> int:
        """Number of components of a vector."""
        ...

    def nearest(self, query: Vector, limit: int, allowed: Rows | None = None, /) -> tuple[Rows, Vector]:
        """Return the passages most similar to the query with their similarities, best first."""
        ...

    def similarities(self, query: Vector, passages: Rows, /) -> NDArray[np.float64]:
        """Return the cosine of the query and each passage; NaN for a passage that has no vector."""
        ...

    def gather(self, passages: Rows, /) -> Vector:
        """Return the vectors of some passages, shape (n, dimension); zeros for a passage that has none."""
        ...


class IndexesReader(Protocol):
    """The indexes as of one moment; see `IndexReader`."""

    @property
    def doc_values(self) -> DocValuesReader:
        """Fields of the items."""
        ...

    @property
    def passage_map(self) -> PassageMapReader:
        """Which passages an item has."""
        ...

    @property
    def postings(self) -> PostingsReader:
        """The full-text index."""
        ...

    @property
    def vectors(self) -> VectorsReader | None:
        """The vectors; None as long as no item has an embedding."""
        ...
