"""Terms and token codes are stored in fewer bytes, and come back as they were."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from devmem import MemoryItem
from devmem.search.indexes.scoring import EncodedTerms, encode_terms, term_hash
from devmem.storage import SearchQuery, SqliteCollection
from devmem.storage.sqlite.compact_rows import joined_codes, pack_terms, split_codes, unpack_terms

COLLIDING = ("q359130x", "q661346x")
"""Two words whose hashes differ only above the bits that are kept."""


def encoded(hashes: Sequence[int], counts: Sequence[int]) -> EncodedTerms:
    whole = np.array(hashes, dtype="<u8").tobytes()
    return EncodedTerms(hashes=whole, counts=bytes(counts), length=sum(counts))


def postings(terms: EncodedTerms) -> Counter[tuple[int, int]]:
    """The terms with their counts, in any order, by the bits that are kept."""
    hashes = (np.frombuffer(terms.hashes, dtype="<u8") & np.uint64((1 << 40) - 1)).tolist()
    return Counter(zip(hashes, terms.counts, strict=True))


@given(st.lists(st.dictionaries(st.integers(0, 2**64 - 1), st.just(1) | st.integers(1, 255)), max_size=5))
def test_terms_come_back_with_their_counts(passages: list[dict[int, int]]) -> None:
    made = [encoded(list(counts), list(counts.values())) for counts in passages]
    stored = [pack_terms(terms) for terms in made]
    found = unpack_terms(stored)
    assert list(map(postings, found)) == list(map(postings, made))
    assert [terms.length for terms in found] == [terms.length for terms in made]
    for hashes, counts, _ in stored:
        assert not hashes or 8 * len(counts) != len(hashes), "it could be taken for terms of format 7"


@given(st.integers(0, 64), st.integers(0, 64))
def test_no_number_of_repeated_terms_looks_like_terms_of_format_7(once: int, repeated: int) -> None:
    counts = [1] * once + [2] * repeated
    terms = encoded(range(len(counts)), counts)
    hashes, stored, _ = pack_terms(terms)
    assert not counts or 8 * len(stored) != len(hashes)
    assert postings(unpack_terms([pack_terms(terms)])[0]) == postings(terms)


def test_terms_take_fewer_bytes() -> None:
    terms = encode_terms("the cat sat on the mat, and the dog on the rug saw the cat")
    hashes, counts, _ = pack_terms(terms)
    assert len(hashes) + len(counts) < 0.65 * (len(terms.hashes) + len(terms.counts))


@given(st.lists(st.binary(max_size=2000), max_size=4))
def test_codes_come_back(passages: list[bytes]) -> None:
    parts = [(at, part, zlib.crc32(codes)) for at, codes in enumerate(passages) for part in split_codes(codes)]
    assert list(joined_codes(parts)) == list(enumerate(passages))


@given(st.integers(0, 3_000_000))
def test_the_parts_of_a_passage_are_of_nearly_the_same_length(size: int) -> None:
    lengths = [len(part) for part in split_codes(bytes(size))]
    assert 1 <= len(lengths) <= 4096
    assert max(lengths) <= max(500, -(-size // 4096))
    assert max(lengths) - lengths[-1] <= len(lengths)


@given(
    st.binary(min_size=700, max_size=3000), st.integers(0), st.sampled_from(["missing", "text", "swapped", "longer"])
)
def test_damaged_codes_are_none(codes: bytes, place: int, damage: str) -> None:
    parts: list[tuple[int, object, int]] = [(7, part, zlib.crc32(codes)) for part in split_codes(codes)]
    at = place % len(parts)
    match damage:
        case "missing":
            del parts[at]
        case "text":
            parts[at] = (7, "text", zlib.crc32(codes))
        case "longer":
            parts[at] = (7, codes, zlib.crc32(codes))
        case _:
            parts[0] = (7, parts[0][1], zlib.crc32(codes) ^ 1)
    assert list(joined_codes(parts)) == [(7, None)]


def test_words_of_the_same_bits_are_both_found(tmp_path: Path) -> None:
    one, other = COLLIDING
    assert term_hash(one) != term_hash(other)
    assert term_hash(one) % (1 << 40) == term_hash(other) % (1 << 40)
    collection = SqliteCollection(tmp_path / "store.db")
    texts = {"one": f"a {one} here", "both": f"the {one} and the {other} there", "neither": "something else"}
    collection.add([MemoryItem(id=name, content_summary=text) for name, text in texts.items()])
    for word in COLLIDING:
        found = [hit.item.id for hit in collection.search(SearchQuery(text=word))]
        assert sorted(found) == ["both", "one"]
    collection.close()
