"""Handles of several scopes on one memory, against a dict each: none ever sees or changes what is another's."""

from __future__ import annotations

import random
from collections.abc import Set
from typing import Final

import pytest

import devmem
from devmem.errors import ItemNotFoundError, ScopeError

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
