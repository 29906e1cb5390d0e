"""The passage map holds what a plain list of pairs holds."""

from __future__ import annotations

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


class Thrifty(PassageMap):
    """Frees room at once."""

    least_removed = 0


@given(batches=BATCHES, step=STEPS, data=st.data())
def test_what_is_left_after_removing(batches: list[list[int]], step: int, data: st.DataObject) -> None:
    """Rows that were not removed keep their passages, whatever was given back, and a view keeps all of its moment."""
    added = numbered(batches, step)
    order = data.draw(st.permutations(added))
    passage_map, gone = Thrifty(), set[int]()
    there: list[tuple[int, int]] = []
    views = []
    for pairs in order:
        passage_map.add([passage for passage, _ in pairs], [row for _, row in pairs])
        there = sorted([*there, *pairs])
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
        assert view.all_passages_of(np.array(kept, dtype=np.int64)).tolist() == sorted(passages.tolist())
        assert view.rows_of(passages[::-1]).tolist() == [row for _, row in left][::-1]
