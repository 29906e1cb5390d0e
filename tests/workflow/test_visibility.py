"""Whose items a node sees: its user's and those of nobody; everybody's only where that is asked for."""

from __future__ import annotations

import pytest

from devmem import ANY, Filter, Scope
from devmem.workflow import User, visible_to

from .doubles import ScriptedStore, manager_of


@pytest.mark.parametrize(
    ("user", "where", "expected"),
    [
        (None, None, Filter(unbound=("user",))),
        ("ann", None, Filter(scope=Scope(user="ann"), include_unscoped=True)),
        (ANY, None, Filter()),
        (None, Filter(scope=Scope(user="ann")), Filter(scope=Scope(user="ann"))),
        (None, Filter(scope=Scope(agent="a")), Filter(scope=Scope(agent="a"), unbound=("user",))),
        ("ann", Filter(scope=Scope(user="bob")), Filter(scope=Scope(user="ann"), include_unscoped=True)),
    ],
)
def test_what_is_visible(user: User, where: Filter | None, expected: Filter) -> None:
    assert visible_to(user, where) == expected


@pytest.mark.parametrize("user", ["", " \t"])
def test_an_empty_user_is_refused(user: str) -> None:
    with pytest.raises(ValueError, match="`user` is empty"):
        manager_of(ScriptedStore()).retrieve(query="tea?", user=user)


def test_the_manager_asks_its_stores_for_that_and_for_the_attachments_trust() -> None:
    store = ScriptedStore()
    manager = manager_of(store, each={"min_trust": 0.7})
    manager.retrieve(query="tea?")
    manager.retrieve(query="tea?", user="ann", where=Filter(min_trust=0.9))
    first, second = (query.where for query in store.queries)
    assert first == Filter(unbound=("user",), min_trust=0.7)
    assert second == Filter(scope=Scope(user="ann"), include_unscoped=True, min_trust=0.9)
