"""A scoped handle never leaves its scope."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import devmem
from devmem.errors import ScopeError

ATTEMPTS: list[Callable[[devmem.Memory], object]] = [
    lambda ann: ann.search("secret", user="bob"),
    lambda ann: ann.search("secret", where=devmem.Filter(scope=devmem.Scope(user="bob"))),
    lambda ann: ann.search("secret", where=devmem.Filter(include_unscoped=True)),
    lambda ann: ann.search("secret", agent="other"),
    lambda ann: ann.search("secret", where=devmem.Filter(scope=devmem.Scope(agent="other"))),
    lambda ann: ann.list(user="bob"),
    lambda ann: ann.count(user=devmem.ANY),
    lambda ann: ann.add("mine now", user="bob"),
    lambda ann: ann.add("mine now", id="bobs"),
    lambda ann: ann.forget(user="bob"),
    lambda ann: ann.forget(where=devmem.Filter(include_unscoped=True)),
    lambda ann: ann.scoped(user="bob"),
    lambda ann: ann.scoped(agent="other"),
]


@pytest.fixture
def ann(memory: devmem.Memory) -> devmem.Memory:
    memory.add("The secret of bob is cinnamon.", user="bob", id="bobs", agent="writer")
    memory.add("The secret of nobody is pepper.", id="nobodys", agent="writer")
    memory.add("The secret of ann to another agent is salt.", user="ann", id="others", agent="editor")
    return memory.scoped(user="ann", agent="writer")


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_asking_for_what_is_outside_is_an_error(
    memory: devmem.Memory, ann: devmem.Memory, attempt: Callable[[devmem.Memory], object]
) -> None:
    with pytest.raises(ScopeError):
        attempt(ann)
    assert len(memory) == 3


def test_only_what_is_inside_is_found_listed_and_counted(ann: devmem.Memory) -> None:
    item_id = ann.add("The secret of ann is sugar.")
    assert [hit.id for hit in ann.search("secret", limit=50)] == [item_id]
    assert [record.id for record in ann.list(50)] == [record.id for record in ann] == [item_id]
    assert len(ann) == ann.count() == 1
    assert ann.forget(user="ann").items == 1


def test_a_handle_without_a_user_reaches_what_is_bound_to_nobody(memory: devmem.Memory, ann: devmem.Memory) -> None:
    writer = memory.scoped(agent="writer")
    assert [record.id for record in writer] == ["nobodys"]
    assert writer.get("bobs") is None
    with pytest.raises(ScopeError):
        writer.search("secret", user="bob")


def test_a_handle_on_everybody_lists_everybody_and_may_be_narrowed(memory: devmem.Memory, ann: devmem.Memory) -> None:
    everybody = memory.scoped(user=devmem.ANY)
    assert {record.id for record in everybody} == {"bobs", "nobodys", "others"}
    assert [record.id for record in everybody.scoped(user="bob")] == ["bobs"]
    everybody.add("new")
    assert memory.list(1)[0].user is None


def test_a_scope_without_a_name_is_refused(memory: devmem.Memory) -> None:
    with pytest.raises(ValueError, match="name the scope"):
        memory.scoped(user=None)
    for name in ("", "  ", "\ud800", "ann\udcff"):
        with pytest.raises(ValueError, match="`user`"):
            memory.scoped(user=name)
        with pytest.raises(ValueError, match="`user`"):
            memory.search("x", user=name)
    with pytest.raises(TypeError, match="not a part of a scope"):
        memory.scoped(usr="ann")  # type: ignore[call-arg]


def test_a_store_type_that_ignores_filters_does_not_leak(
    memory: devmem.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.add("The secret of bob is cinnamon.", user="bob", id="bobs")
    search, recent = memory.store.search, memory.store.recent
    unfiltered = devmem.stores.MemoryQuery(text="secret", limit=5)
    monkeypatch.setattr(memory.store, "search", lambda query: search(unfiltered))
    monkeypatch.setattr(memory.store, "recent", lambda limit, where, **listing: recent(limit))
    assert not [*memory.search("secret"), *memory.list(), *memory.scoped(user="ann").search("secret")]
