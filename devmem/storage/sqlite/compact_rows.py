"""The terms and the token codes of passages, in the form in which the rows of a file hold them.

Terms are stored without what most of them have in common: a count of 1, and the bits of their hashes that indexes do
not compare. Token codes are stored in parts: a page of SQLite holds whole rows of a table, so that rows of half a page
would leave up to half of each page unused. The key of a part is one integer, the passage's number and its own: a table
without row numbers would hold whole parts in the inner pages of its tree, and be twice as deep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeAlias

import numpy as np

from devmem.search.indexes.scoring import TERM_BITS, EncodedTerms

_HASH_BYTES: Final = TERM_BITS // 8
_WHOLE_BYTES: Final = 8
_PART_BYTES: Final = 500
"""Maximum number of bytes of a part of a passage's token codes, unless there would be too many parts."""
_PART_BITS: Final = 12
_MOST_PARTS: Final = 1 << _PART_BITS
FIRST_PART: Final = f"passage << {_PART_BITS}"
"""SQL expression of the key of a passage's first part."""
IS_FIRST_PART: Final = f"NOT part & {_MOST_PARTS - 1}"
"""SQL condition of the rows of `tokens` that are the first part of a passage."""
PASSAGE_OF_PART: Final = f"(part >> {_PART_BITS})"
"""SQL expression of the passage to which a row of `tokens` belongs."""
PARTS_OF_PASSAGE: Final = f"part BETWEEN {FIRST_PART} AND ({FIRST_PART}) + {_MOST_PARTS - 1}"
"""SQL condition of the rows of `tokens` that belong to a passage, by the key."""

StoredTerms: TypeAlias = tuple[bytes, bytes, int]
"""The columns `term_hashes`, `term_counts` and `term_length`."""


def pack_terms(terms: EncodedTerms) -> StoredTerms:
    """Return the columns of a passage's terms: the lower bytes of the hashes, those that occur most often first.

    The counts are those of the first hashes; all others occur once.
    """
    hashes = np.frombuffer(terms.hashes, dtype=np.uint8).reshape(-1, _WHOLE_BYTES)[:, :_HASH_BYTES]
    counts = np.frombuffer(terms.counts, dtype=np.uint8)
    order = np.argsort(~counts, kind="stable")
    repeated = int(np.count_nonzero(counts > 1))
    return hashes[order].tobytes(), counts[order[:repeated]].tobytes(), terms.length


def unpack_terms(stored: Sequence[StoredTerms]) -> list[EncodedTerms]:
    """Return the terms of passages from their columns; the upper bytes of the hashes are 0."""
    joined = np.frombuffer(b"".join(hashes for hashes, _, _ in stored), dtype=np.uint8).reshape(-1, _HASH_BYTES)
    whole = np.zeros((len(joined), _WHOLE_BYTES), dtype=np.uint8)
    whole[:, :_HASH_BYTES] = joined
    raw, start = whole.tobytes(), 0
    terms: list[EncodedTerms] = []
    for hashes, counts, length in stored:
        number = len(hashes) // _HASH_BYTES
        end = start + number * _WHOLE_BYTES
        terms.append(EncodedTerms(hashes=raw[start:end], counts=counts.ljust(number, b"\1"), length=length))
        start = end
    return terms


def parts_of(passage: int) -> tuple[int, int]:
    """Return the lowest and the highest key that a part of a passage can have."""
    return passage * _MOST_PARTS, (passage + 1) * _MOST_PARTS - 1


def split_codes(codes: bytes) -> list[bytes]:
    """Return the parts in which a passage's token codes are stored, in order; at least one, and 4096 at most.

    They are of nearly the same length, as a short rest would leave more of a page unused.
    """
    parts = min(max(-(-len(codes) // _PART_BYTES), 1), _MOST_PARTS)
    size = max(-(-len(codes) // parts), 1)
    return [codes[start : start + size] for start in range(0, max(len(codes), 1), size)]


def joined_codes(parts: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yield each passage with its token codes, given passage and codes of every part, ordered by both."""
    for passage, found in groupby(parts, key=lambda part: part[0]):
        yield passage, b"".join(codes for _, codes in found)
