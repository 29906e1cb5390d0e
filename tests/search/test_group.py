"""Hits by conversation."""

from __future__ import annotations

from devmem import Hit, MemoryItem, Scope
from devmem.search.merging import by_conversation


def hit(name: str, score: float, conversation: str | None = None, session: str | None = None) -> Hit:
    scope = Scope(conversation=conversation, session=session)
    return Hit(item=MemoryItem(id=name, content_summary=name, scope=scope), score=score)


def test_the_group_of_the_best_hit_comes_first_and_keeps_its_order() -> None:
    hits = [hit("a", 0.9, "x", "1"), hit("b", 0.8, "y"), hit("c", 0.7, "x", "1"), hit("d", 0.6, "x", "2")]
    groups = by_conversation(hits)
    assert [[one.item.id for one in group.hits] for group in groups] == [["a", "c"], ["b"], ["d"]]
    assert [(group.conversation, group.session, group.score) for group in groups] == [
        ("x", "1", 0.9),
        ("y", None, 0.8),
        ("x", "2", 0.6),
    ]


def test_a_conversation_is_that_of_one_agent_and_one_user() -> None:
    scopes = [Scope(conversation="x", agent="p"), Scope(conversation="x", agent="q"), Scope(conversation="x", user="u")]
    hits = [
        Hit(item=MemoryItem(content_summary=str(at), scope=scope), score=1 - at / 10) for at, scope in enumerate(scopes)
    ]
    assert [(group.agent, group.user) for group in by_conversation(hits)] == [("p", None), ("q", None), (None, "u")]
