"""Arguments that mean nothing get an error that says what is accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import devmem
from devmem.errors import FilterError


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
