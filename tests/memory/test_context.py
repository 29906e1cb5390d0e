"""The block for a prompt that a memory makes of what answers a query."""

from __future__ import annotations

import devmem


def test_what_the_prompt_has_already_gives_its_place_to_others() -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        ids = [memory.add(f"The launch is on June {day}.") for day in (2, 3, 4)]
        best = memory.search("launch on June", limit=1)[0]
        block = memory.context("launch on June", limit=1, exclude=[best.id])
        assert best.text not in block
        assert block.count("The launch is on June") == 1
        assert memory.context("launch on June", exclude=ids) == ""
