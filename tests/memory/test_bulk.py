"""Many records at once: adding, reading, counting and changing them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem.errors import FilterError, ScopeError


@pytest.fixture(params=["bulk.db", "bulk.json"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[devmem.Memory]:
    with devmem.open(str(tmp_path / request.param), embedding=None) as opened:
        yield opened


def notes(count: int) -> list[dict[str, Any]]:
    return [
        {
            "text": f"note {n}",
            "id": f"n{n}",
            "time": 1_700_000_000 + n,
            "metadata": {"n": n, "tags": ["all", f"t{n % 2}"]},
        }
        for n in range(count)
    ]


def test_each_text_has_its_own_id_time_key_and_expiry(memory: devmem.Memory) -> None:
    ids = memory.add(
        [
            *notes(3),
            {"text": "Ann eats meat.", "key": "diet", "trust": 0.5},
            {"text": "Gone soon.", "expires_at": "in 2 days"},
            {"text": "", "metadata": {"only": "metadata"}},
        ],
        metadata={"batch": 1},
        trust=0.7,
    )
    assert ids[:3] == ["n0", "n1", "n2"]
    first, diet, soon, blank = memory.get([ids[0], *ids[3:]])
    assert (first.time.timestamp(), first.metadata["batch"], first.trust) == (1_700_000_000, 1, 0.7)
    assert (diet.trust, soon.expires_at is not None) == (0.5, True)
    assert (blank.text, blank.metadata["only"]) == ("", "metadata")
    assert memory.add("Ann is a vegetarian.", key="diet") == diet.id
    assert len(memory) == 6
    assert memory.add([{"text": "", "metadata": {"only": "more"}}]) != [blank.id]


def test_a_list_is_stored_whole_or_not_at_all(memory: devmem.Memory) -> None:
    memory.add("Ann's", id="n1", user="ann")
    with pytest.raises(ScopeError, match="'n1' is taken"):
        memory.add(notes(3))
    with pytest.raises(ValueError, match="'n1' is given twice"):
        memory.add([notes(2)[1], notes(2)[1]])
    with pytest.raises(ValueError, match="'diet' is given twice"):
        memory.add([{"text": "a", "key": "diet"}, {"text": "b", "key": "diet"}])
    with pytest.raises(ValueError, match="both name"):
        memory.add([{"text": "a", "key": "diet", "id": "x"}])
    with pytest.raises(ValueError, match="text number 2 is blank"):
        memory.add(["a", " "])
    with pytest.raises(ValueError, match="each is a dict with `text` and `key`"):
        memory.add(["a", "b"], key="diet")  # type: ignore[call-overload]
    assert memory.count(user=devmem.ANY) == 1


def test_reading_many(memory: devmem.Memory) -> None:
    memory.add(notes(250))
    assert [record.id for record in memory.get(["n9", "zz", "n3", "n9"])] == ["n9", "n3"]
    assert [record.metadata["n"] for record in memory.scan(where={"metadata.n": {">=": 245}})] == list(range(245, 250))
    assert memory.count(by="metadata.tags", where={"metadata.n": {"<": 5}}) == [("all", 5), ("t0", 3), ("t1", 2)]
    with pytest.raises(FilterError, match=r"metadata\.KEY"):
        memory.count(by="tags")

    async def read() -> list[str]:
        assert await memory.acount(by="user") == [(None, 250)]
        return [record.id async for record in memory.ascan(where={"metadata.n": [1, 2]})]

    assert asyncio.run(read()) == ["n1", "n2"]


def test_changing_all_that_match(memory: devmem.Memory) -> None:
    memory.add(notes(450))
    memory.add("Ann's", metadata={"n": 500}, user="ann")
    where = {"metadata.n": {">=": 10}}
    assert memory.update(where=where, metadata={"state": "done"}, dry_run=True) == 440
    assert memory.count(where={"metadata.state": "done"}) == 0
    assert memory.update(where=where, metadata={"state": "done", "tags": None}, trust=0.9) == 440
    assert memory.update(where=where, metadata={"state": "done"}) == 0
    assert memory.count(by="metadata.state", user=devmem.ANY) == [("done", 440), (None, 11)]
    assert memory.forget(where={"metadata.state": "done"}, dry_run=True).items == 440
    everywhere: list[dict[str, Any]] = [{}, {"all_of": [{}]}]
    for everything in everywhere:
        with pytest.raises(ValueError, match="admits everything"):
            memory.update(where=everything, metadata={"x": 1})
