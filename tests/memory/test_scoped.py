"""A scoped handle never leaves its scope."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import devmem
from devmem.errors import ItemNotFoundError, ScopeError
from devmem.messages import Message

ATTEMPTS: list[Callable[[devmem.Memory], object]] = [
    lambda ann: ann.search("secret", user="bob"),
    lambda ann: ann.search("secret", user=devmem.ANY),
    lambda ann: ann.search("secret", where=devmem.Filter(scope=devmem.Scope(user="bob"))),
    lambda ann: ann.search("secret", where=devmem.Filter(include_unscoped=True)),
    lambda ann: ann.search("secret", agent="other"),
    lambda ann: ann.search("secret", where=devmem.Filter(scope=devmem.Scope(agent="other"))),
    lambda ann: ann.list(user="bob"),
    lambda ann: ann.list(where=devmem.Filter(scope=devmem.Scope(user="bob"))),
    lambda ann: ann.count(user=devmem.ANY),
    lambda ann: ann.add("mine now", user="bob"),
    lambda ann: ann.add("mine now", id="bobs"),
    lambda ann: ann.forget(user="bob"),
    lambda ann: ann.forget(user=devmem.ANY),
    lambda ann: ann.forget(where=devmem.Filter(scope=devmem.Scope(user="bob"))),
    lambda ann: ann.forget(where=devmem.Filter(include_unscoped=True)),
    lambda ann: ann.scoped(user="bob"),
    lambda ann: ann.scoped(user=devmem.ANY),
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


@pytest.mark.parametrize("item_id", ["bobs", "nobodys", "others"])
def test_an_id_of_another_scope_is_not_found(memory: devmem.Memory, ann: devmem.Memory, item_id: str) -> None:
    assert ann.get(item_id) is None
    assert item_id not in ann
    assert ann.forget(item_id).items == ann.forget(item_id, dry_run=True).items == 0
    with pytest.raises(ItemNotFoundError):
        ann.update(item_id, "mine now")
    assert memory.get(item_id) is not None


def test_only_what_is_inside_is_found_listed_and_counted(ann: devmem.Memory) -> None:
    item_id = ann.add("The secret of ann is sugar.")
    assert [hit.id for hit in ann.search("secret", limit=50)] == [item_id]
    assert [record.id for record in ann.list(50)] == [record.id for record in ann] == [item_id]
    assert len(ann) == ann.count() == 1
    assert ann.get(item_id) is not None
    assert ann.forget(user="ann").items == 1


def test_a_message_under_another_users_id_is_another_item(memory: devmem.Memory) -> None:
    (bobs,) = memory.scoped(user="bob").add(Message("bob's", id="m1"))
    (anns,) = memory.scoped(user="ann").add(Message("ann's", id="m1"))
    assert bobs != anns
    assert memory.scoped(user="bob").get(bobs).text == "bob's"  # type: ignore[union-attr]


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


def test_closing_a_handle_leaves_the_memory_open(memory: devmem.Memory) -> None:
    with memory.scoped(user="ann") as ann:
        ann.add("one")
    assert len(memory) == 1


def test_a_store_type_that_ignores_filters_does_not_leak(
    memory: devmem.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.add("The secret of bob is cinnamon.", user="bob", id="bobs")
    search, recent = memory.store.search, memory.store.recent
    unfiltered = devmem.stores.MemoryQuery(text="secret", limit=5)
    monkeypatch.setattr(memory.store, "search", lambda query: search(unfiltered))
    monkeypatch.setattr(memory.store, "recent", lambda limit, where, **listing: recent(limit))
    assert not [*memory.search("secret"), *memory.list(), *memory.scoped(user="ann").search("secret")]
