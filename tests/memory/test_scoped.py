"""A scoped handle never leaves its scope, against a dict each: none ever sees or changes what is another's."""

from __future__ import annotations

import random
from collections.abc import Callable, Set
from typing import Final

import pytest

import devmem
from devmem.errors import ItemNotFoundError, ScopeError

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


SCOPES: Final[tuple[dict[str, str], ...]] = (
    {"user": "ann"},
    {"user": "ann\u200b"},
    {"user": "bob", "agent": "writer"},
    {"user": "bob", "agent": "writer", "session": "1"},
    {"agent": "writer"},
    {"conversation": "ann"},
)
"""The fourth is a part of the third; the others have nothing in common."""
IDS: Final = [f"k{number}" for number in range(8)]


class Model:
    """Items by id, and the scope in which each was added."""

    def __init__(self) -> None:
        self.items: dict[str, tuple[int, str]] = {}

    def within(self, scope: int) -> dict[str, str]:
        wider = {2: {2, 3}}.get(scope, {scope})
        return {item_id: text for item_id, (owner, text) in self.items.items() if owner in wider}

    def forget(self, ids: Set[str]) -> None:
        self.items = {item_id: kept for item_id, kept in self.items.items() if item_id not in ids}

    def taken(self, item_id: str, scope: int) -> bool:
        return item_id in self.items and self.items[item_id][0] != scope


@pytest.mark.parametrize("seed", range(6))
def test_no_handle_reaches_another(memory: devmem.Memory, seed: int) -> None:
    choose, model = random.Random(seed), Model()
    handles = [memory.scoped(**scope) for scope in SCOPES]
    for step in range(120):
        scope = choose.randrange(len(SCOPES))
        act(choose, handles[scope], model, scope, step)
        for at, each in enumerate(handles):
            assert {record.id: record.text for record in each} == model.within(at)
            assert len(each) == len(model.within(at))
    assert len(memory) == len(model.items)


def act(choose: random.Random, handle: devmem.Memory, model: Model, scope: int, step: int) -> None:
    """Do something with a handle and the same with the model; both must come to the same."""
    item_id, text, inside = choose.choice(IDS), f"cinnamon {step}", model.within(scope)
    match choose.choice(["add", "add", "get", "update", "forget", "forget all", "search"]):
        case "add" if model.taken(item_id, scope):
            with pytest.raises(ScopeError):
                handle.add(text, id=item_id)
        case "add":
            handle.add(text, id=item_id)
            model.items[item_id] = (scope, text)
        case "get":
            found = handle.get(item_id)
            assert (found and found.text) == inside.get(item_id)
        case "update" if item_id in inside:
            handle.update(item_id, text)
            model.items[item_id] = (model.items[item_id][0], text)
        case "update":
            with pytest.raises(ItemNotFoundError):
                handle.update(item_id, text)
        case "forget":
            assert handle.forget(item_id).items == int(item_id in inside)
            model.forget({item_id} & inside.keys())
        case "forget all" if step % 5 == 0:
            assert handle.forget(where=devmem.Filter(min_trust=0.5)).items == len(inside)
            model.forget(inside.keys())
        case _:
            assert {hit.id: hit.text for hit in handle.search("cinnamon", limit=50)} == inside
