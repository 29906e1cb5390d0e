"""The passage map holds what a plain list of pairs holds."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from devmem.search.indexes.passages import PassageMap

BATCHES = st.lists(st.lists(st.integers(1, 4), max_size=6), max_size=5)
"""How many passages each item of a batch has."""
STEPS = st.integers(1, 3)


def numbered(batches: list[list[int]], step: int) -> list[list[tuple[int, int]]]:
    """Return passages and rows as a database numbers them, with gaps where items were deleted at once."""
    passage, row = 0, 0
    found = []
    for batch in batches:
        pairs = []
        for count in batch:
            row += step
            for _ in range(count):
                passage += step
                pairs.append((passage, row))
        found.append(pairs)
    return found


def filled(batches: list[list[tuple[int, int]]], *, reopened: bool = False) -> PassageMap:
    passage_map = PassageMap()
    for pairs in batches:
        passage_map.add([passage for passage, _ in pairs], [row for _, row in pairs])
        if reopened:
            passage_map = PassageMap.restore(passage_map.parts())
    return passage_map


@given(batches=BATCHES, step=STEPS, reopened=st.booleans(), order=st.randoms(use_true_random=False))
def test_it_has_what_was_added(batches: list[list[int]], step: int, reopened: bool, order: Random) -> None:
    """In whatever order batches, and passages in them, come."""
    added = numbered(batches, step)
    pairs = [pair for batch in added for pair in batch]
    order.shuffle(added)
    for batch in added:
        order.shuffle(batch)
    passage_map = filled(added, reopened=reopened)
    assert len(passage_map) == len(pairs)
    passages = np.array([passage for passage, _ in pairs], dtype=np.int64)
    assert passage_map.rows_of(passages[::-1]).tolist() == [row for _, row in pairs][::-1]


@given(batches=BATCHES, step=STEPS, data=st.data())
def test_the_passages_of_rows(batches: list[list[int]], step: int, data: st.DataObject) -> None:
    added = numbered(batches, step)
    pairs = [pair for batch in added for pair in batch]
    rows = data.draw(st.lists(st.integers(0, 40), unique=True))
    order = data.draw(st.permutations(added))
    passage_map = filled(order)
    passages, owner = passage_map.passages_of(np.array(rows, dtype=np.int64))
    wanted = [(passage, at) for at, row in enumerate(rows) for passage, its in pairs if its == row]
    assert list(zip(passages.tolist(), owner.tolist(), strict=True)) == wanted
    everything = passage_map.all_passages_of(np.array(rows, dtype=np.int64))
    assert everything.tolist() == sorted(passage for passage, _ in wanted)


class Thrifty(PassageMap):
    """Frees room at once."""

    least_removed = 0


@given(batches=BATCHES, step=STEPS, data=st.data())
def test_what_is_left_after_removing(batches: list[list[int]], step: int, data: st.DataObject) -> None:
    """Rows that were not removed keep their passages, whatever was given back, and a view keeps all of its moment."""
    added = numbered(batches, step)
    passage_map, gone = Thrifty(), set[int]()
    there: list[tuple[int, int]] = []
    views = []
    for pairs in added:
        passage_map.add([passage for passage, _ in pairs], [row for _, row in pairs])
        there += pairs
        rows = sorted(data.draw(st.sets(st.integers(0, 40), max_size=8)))
        passage_map.remove(np.array(rows, dtype=np.int64))
        gone |= set(rows) & {row for _, row in there}
        if data.draw(st.booleans()):
            passage_map = Thrifty.restore(passage_map.parts())
        views.append((passage_map.view(), [pair for pair in there if pair[1] not in gone]))
    for view, left in views:
        kept = sorted({row for _, row in left})
        passages, owner = view.passages_of(np.array(kept, dtype=np.int64))
        wanted = [(passage, kept.index(row)) for passage, row in left]
        assert list(zip(passages.tolist(), owner.tolist(), strict=True)) == wanted
