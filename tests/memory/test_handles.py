"""A handle is opened, copied and pickled as programs expect, short in a shell, and refuses what means nothing."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem.errors import FilterError


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


@pytest.mark.parametrize(
    "content",
    [{"a": 1}, [{"a": 1}], {}, 5, None, b"bytes", ["fine", 5], {"text": 5}, {"text": "x", "b": 1},
     {"role": "user", "text": "lost"}, [["nested"]]],
)  # fmt: skip
def test_what_has_none_of_the_forms_is_refused_and_the_forms_are_named(memory: devmem.Memory, content: Any) -> None:
    with pytest.raises(TypeError, match="a dict with `role` and `content`"):
        memory.add(content)
    assert len(memory) == 0


def nested(depth: int) -> devmem.Filter:
    found = devmem.Filter(min_trust=0.5)
    for _ in range(depth):
        found = devmem.Filter(any_of=(found,))
    return found


WRONG: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda memory: memory.search(None), TypeError, "`query` is text"),
    (lambda memory: memory.search("x", limit="5"), TypeError, "`limit` is a whole number"),
    (lambda memory: memory.search("x", where={"a": 1}), FilterError, "metadata.a"),
    (lambda memory: memory.search("x", metadata="foo"), TypeError, "`metadata` is a mapping"),
    (lambda memory: memory.add("x", metadata={1: 2}), TypeError, "`metadata` is a mapping"),
    (lambda memory: memory.update("one", 5), TypeError, "`text` is text"),
    (lambda memory: memory.add("x", trust="high"), ValueError, "`trust` is from 0 to 1"),
    (lambda memory: memory.add("x", time=10**4299), ValueError, "not a time"),
    (lambda memory: memory.search("x", after=2, before=1), FilterError, "after: it is not earlier than `before`"),
    (lambda memory: memory.get([5]), TypeError, "`id` is text"),
    (lambda memory: memory.list(-1), ValueError, "`limit` is 0 or more"),
    (lambda memory: memory.list(1, offset=1.5), TypeError, "`offset` is a whole number"),
    (lambda memory: memory.list(where=5), TypeError, "`where` is a devmem.Filter"),
    (lambda memory: memory.forget(usr="ann"), TypeError, "'usr' selects nothing"),
    (lambda memory: memory.search("x", where=nested(10_000)), FilterError, "any_of"),
]


@pytest.mark.parametrize(("call", "kind", "says"), WRONG)
def test_a_wrong_argument_is_named(
    memory: devmem.Memory, call: Callable[[Any], object], kind: type[Exception], says: str
) -> None:
    memory.add("one thing", id="one")
    with pytest.raises(kind, match=says):
        call(memory)
    assert [record.text for record in memory] == ["one thing"]


def test_a_limit_beyond_what_a_database_counts_means_all(memory: devmem.Memory) -> None:
    memory.add(["one", "two"])
    assert len(memory.list(limit=2**63)) == len(memory.list(10**30)) == 2
    assert memory.list(offset=10**30) == []
    assert memory.runs(2**70) == []


def test_a_repr_is_short(memory: devmem.Memory) -> None:
    item_id = memory.add("Ann moved the launch to June 2nd, " * 50, user="ann", metadata={"blob": "x" * 5000})
    (hit,) = memory.search("launch", user="ann")
    (version,) = memory.history(item_id)
    (change,) = memory.diff(0.0)
    for shown in (memory.get(item_id), hit, version, change):
        text = repr(shown)
        assert len(text) < 250
        assert "Ann moved the launch" in text
        assert "'ann'" in text
    assert repr(hit).startswith(f"<Hit {hit.score:.3f} ")


def test_tables_escape_what_was_stored(memory: devmem.Memory) -> None:
    item_id = memory.add("<script>alert('launch')</script>", metadata={"<b>": "</td>"})
    tables = [
        memory.search("launch")._repr_html_(),
        memory.list()._repr_html_(),
        memory.history(item_id)._repr_html_(),
        memory._repr_html_(),
    ]
    for table in tables:
        assert table.startswith("<table>")
        assert "&lt;script&gt;" in table
        assert "<script>" not in table
        assert "<b>" not in table


def test_a_search_without_a_user_says_what_it_leaves_out(
    memory: devmem.Memory, caplog: pytest.LogCaptureFixture
) -> None:
    memory.add(["The code of Ann is 1.", "Ann likes tea."], user="ann", metadata={"topic": "ann"})
    memory.add("The code of Bob is 2.", user="bob")
    memory.add("The code is 3.")
    assert memory.search("code").left_out == 3
    assert memory.search("code", metadata={"topic": "ann"}).left_out == 2
    assert [record.message.count("3 item(s) that belong to users") for record in caplog.records] == [1]
    for hits in (memory.search("code", user="ann"), memory.search("code", user=devmem.ANY)):
        assert hits.left_out == 0
    assert memory.scoped(user="ann").search("code").left_out == memory.scoped().search("code").left_out == 0
