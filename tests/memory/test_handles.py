"""A handle on a memory is opened, copied and pickled as programs expect of one."""

from __future__ import annotations

import asyncio
import copy
import pickle
from pathlib import Path

import pytest

import devmem


def test_a_pickle_is_a_handle_on_the_same_place(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    with devmem.open(file.name, embedding=None, fields=["title"]) as memory:
        memory.add("Ann likes tea.", user="ann")
        memory.add("Bob likes coffee.", user="bob")
        whole, of_ann = pickle.dumps(memory), pickle.dumps(memory.scoped(user="ann"))
    monkeypatch.chdir("/")
    with pickle.loads(whole) as again:
        assert again.count(user=devmem.ANY) == 2
    scoped = pickle.loads(of_ann)
    assert [record.text for record in scoped.list()] == ["Ann likes tea."]
    with pytest.raises(devmem.errors.ScopeError):
        scoped.list(user="bob")


@pytest.mark.parametrize("place", [":memory:", {"type": "simple", "config": {}}])
def test_what_no_other_process_can_open_is_not_pickled(place: str | dict[str, object]) -> None:
    with devmem.open(place) as memory, pytest.raises(TypeError, match="cannot be pickled: no other process"):
        pickle.dumps(memory)


def test_a_key_is_in_no_pickle(file: Path) -> None:
    with (
        devmem.open(file, embedding=None, key=bytes(32)) as memory,
        pytest.raises(TypeError, match="cannot be pickled"),
    ):
        pickle.dumps(memory)


def test_a_copy_is_the_same_handle(memory: devmem.Memory) -> None:
    settings = {"memory": memory.scoped(user="ann")}
    copied = copy.deepcopy(settings)["memory"]
    copied.add("Ann likes tea.")
    assert copy.copy(memory).count(user="ann") == 1


def test_a_memory_is_opened_without_blocking_the_loop(file: Path) -> None:
    async def program() -> list[str]:
        async with await devmem.aopen(file, embedding=None) as memory:
            await memory.aadd("Tea at four.")
            return [record.text for record in await memory.alist()]

    assert asyncio.run(program()) == ["Tea at four."]


@pytest.mark.parametrize("place", ["x.db", Path("x.db"), {"type": "simple"}])
def test_a_place_is_no_store(place: object) -> None:
    with pytest.raises(TypeError, match=r"open one by its place: devmem\.open\("):
        devmem.Memory(place)  # type: ignore[arg-type]
