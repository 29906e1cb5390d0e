"""The terms of some passages, as their rows have them: searched without postings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString, TypeAlias

import numpy as np
from numpy.typing import NDArray

from devmem.errors import CollectionClosedError, CollectionError
from devmem.search.indexes.columns import Rows
from devmem.search.indexes.postings import Postings
from devmem.search.indexes.scoring import Codes, Docs, Hashes, Impacts, decode_terms
from devmem.storage.postgres.database import Connection, composed
from devmem.storage.postgres.schema import lock

TermRow: TypeAlias = tuple[int, bytes, bytes, int]
"""Passage, hashes, counts and length; see `EncodedTerms`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TermTexts:
    """The terms of n passages."""

    passages: Rows
    """In any order, shape (n,)."""
    lengths: NDArray[np.float32]
    """In terms, shape (n,)."""
    hashes: Hashes
    """Hash of each posting, in the order of the passages."""
    docs: Docs
    """Place of each posting's passage."""
    codes: Codes

    @classmethod
    def of(cls, rows: Sequence[TermRow]) -> TermTexts:
        """Read rows of the table `passages`."""
        passages, hashes, counts, each = zip(*rows, strict=True) if rows else ((), (), (), ())
        lengths = np.array(each, dtype=np.float32)
        terms, docs, codes = decode_terms(hashes, counts, lengths)
        return cls(passages=np.array(passages, dtype=np.int64), lengths=lengths, hashes=terms, docs=docs, codes=codes)

    def where(self, keep: NDArray[np.bool_]) -> TermTexts:
        """Return the passages at some places."""
        if bool(keep.all()):
            return self
        places = np.cumsum(keep, dtype=np.int32) - np.int32(1)
        kept = keep[self.docs]
        return TermTexts(
            passages=self.passages[keep],
            lengths=self.lengths[keep],
            hashes=self.hashes[kept],
            docs=places[self.docs[kept]],
            codes=self.codes[kept],
        )

    def joined(self, others: TermTexts) -> TermTexts:
        """Return these passages, and behind them others."""
        if not len(self.passages) or not len(others.passages):
            return self if len(self.passages) else others
        return TermTexts(
            passages=np.concatenate([self.passages, others.passages]),
            lengths=np.concatenate([self.lengths, others.lengths]),
            hashes=np.concatenate([self.hashes, others.hashes]),
            docs=np.concatenate([self.docs, others.docs + np.int32(len(self.passages))]),
            codes=np.concatenate([self.codes, others.codes]),
        )

    def count_of(self, term: int) -> int:
        """Return the number of passages that a term (hash) occurs in."""
        return int(np.count_nonzero(self.hashes == np.uint64(term)))

    def postings(self, term: int, table: Impacts, first: int = 0) -> Postings | None:
        """Return the postings of a term; None when it does not occur.

        Args:
            term: hash of the term.
            table: impacts by code.
            first: position of the first passage.
        """
        at = np.flatnonzero(self.hashes == np.uint64(term))
        if not len(at):
            return None
        codes = self.codes[at]
        return Postings(docs=self.docs[at] + np.int32(first), codes=codes, peak=float(table[codes].max()))


NO_TEXTS = TermTexts.of([])


def numbers_from(raw: bytes | None, kind: str) -> NDArray[Any]:
    """Return the numbers of a column of bytes; none for NULL."""
    return np.frombuffer(raw or b"", dtype=kind)


_SETTINGS: Final = {
    "jit": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "enable_material": "off",
    "enable_seqscan": "off",
    # Planning a statement takes longer than looking a few hundred rows up.
    "plan_cache_mode": "force_generic_plan",
}
SEARCH_SETTINGS: Final = "SELECT " + ", ".join(
    f"set_config('{name}', '{value}', true)" for name, value in _SETTINGS.items()
)
"""Statement that has rows looked up one by one until the transaction ends, and nothing compiled."""


def of_store(query: str, store: int) -> LiteralString:
    """Return a statement with the number of the store in it: a plan for any store would be one for all partitions."""
    return composed(query.replace("%(store)s", f"{store:d}"))


def begin_step(connection: Connection, store: int) -> None:
    """Keep others from changing the store's segments and blocks until the transaction ends, however long it takes."""
    lock(connection, "segments", store)
    connection.execute("SET LOCAL statement_timeout = 0")
    connection.execute(composed(SEARCH_SETTINGS))


_LOG: Final = logging.getLogger(__name__)


def run_logged(work: Callable[[], object], location: str, is_closed: Callable[[], bool]) -> None:
    """Run work in its own thread; what goes wrong is logged, unless the store was closed meanwhile."""
    try:
        work()
    except CollectionClosedError:
        return
    except CollectionError as error:
        if not is_closed():
            _LOG.warning("The indexes of %s were not brought up to date: %s", location, error)
    except Exception:  # noqa: BLE001 - nobody asks for the result
        _LOG.exception("The indexes of %s were not brought up to date.", location)
