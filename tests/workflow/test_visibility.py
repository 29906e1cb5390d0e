"""Whose items a node sees: its user's and those of nobody; everybody's only where that is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from devmem import ANY, ConfigError, Filter, MemoryItem, Scope, load_workflow
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


def test_an_attachments_condition_is_asked_for_beside_the_callers() -> None:
    store = ScriptedStore()
    manager = manager_of(store, each={"where": {"agent": "writer", "none_of": [{"metadata.state": "done"}]}})
    manager.retrieve(query="tea?", user="ann", where=Filter(scope=Scope(conversation="c")))
    (asked,) = (query.where for query in store.queries)
    seen = MemoryItem(content_summary="tea", scope=Scope(user="ann", agent="writer", conversation="c"))
    others = [
        replace(seen, metadata={"state": "done"}),
        *(replace(seen, scope=replace(seen.scope, **{part: "x"})) for part in ("user", "agent", "conversation")),
        replace(seen, scope=replace(seen.scope, agent=None)),
    ]
    assert [asked.admits(item, 0.0) for item in (seen, *others)] == [True, *[False] * 5]
    handle = manager.attachment(store.name, Scope(user="ann", agent="writer"))
    handle.search("tea")
    assert not store.queries[-1].where.admits(others[0], 0.0)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("{user: bob}", "`user` is named by whoever runs"),
        ("{metadata.state: {$ne: done}}", "no operator is '$ne'"),
        ("{topic: launch}", "a key of the metadata is metadata.topic"),
        ("[done]", "expected a mapping"),
    ],
)
def test_a_wrong_condition_is_found_in_the_file(tmp_path: Path, where: str, said: str) -> None:
    text = f"""
memory: [{{name: notes, type: simple}}]
nodes:
  - id: writer
    type: agent
    config:
      memories:
        - name: notes
          where: {where}
"""
    (file := tmp_path / "team.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        load_workflow(file)
    assert said in str(refused.value)
    assert "team.yaml:9" in str(refused.value)
