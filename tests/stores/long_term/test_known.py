"""When a message says nothing new: by meaning, by its very words, and never by half of it."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from devmem import MemoryContentSnapshot, MemoryItem, MemoryWritePayload, Scope
from devmem.errors import MessageError
from devmem.messages import UserMessage
from devmem.stores import WriteStatus
from devmem.testing import FailingEmbedder, ManualClock

from .conftest import AngleEmbedder, OpenStore, angle_of


@pytest.mark.parametrize("dimension", [2, 384, 1536])
@pytest.mark.parametrize("config", [{}, {"threshold": 0.1}, {"known_similarity": 0.95}])
def test_the_threshold_means_the_same_with_every_model(
    open_store: OpenStore, config: dict[str, float], dimension: int
) -> None:
    """L7: MetaGPT's 0.1 is a squared distance of unit vectors, which a cosine of 0.95 says for any dimension."""
    role = open_store(embedder=AngleEmbedder(dimension), **config).recover("r")
    role.add(UserMessage("idea at 0 degrees"))
    near = UserMessage(f"near at {angle_of(0.099)} degrees")
    far = UserMessage(f"far at {angle_of(0.101)} degrees")
    assert role.find_news([near, far]) == [far]


@pytest.mark.parametrize("embedded", [True, False])
def test_what_many_others_know_is_no_news_to_who_knows_it(open_store: OpenStore, embedded: bool) -> None:
    """However many roles keep the same, each role's own is found, and none else's."""
    store = open_store(embedder=AngleEmbedder() if embedded else None)
    same = UserMessage("the same at 0 degrees")
    store.recover("first").add(same)
    for n in range(60):
        store.recover(f"role {n}").add(replace(same, id=f"{n}"))
    asked = replace(same, id="asked")
    assert store.recover("first").find_news([asked]) == []
    assert store.recover("first").search_similar(asked) == [same]
    assert store.recover("newcomer").find_news([asked]) == [asked]


def test_without_a_model_the_very_words_are_known(open_store: OpenStore) -> None:
    role = open_store().recover("r")
    role.add(UserMessage("Write a snake game."))
    assert role.find_news([UserMessage("write  a snake\ngame.")]) == []
    assert len(role.find_news([UserMessage("Write a snake game, please."), UserMessage("")])) == 2


def test_a_long_message_is_known_by_all_of_its_words(open_store: OpenStore) -> None:
    """Its beginning alone is embedded, so another end would be taken for the same."""
    role = open_store(embedder=AngleEmbedder(), max_content_length=100).recover("r")
    start = "A report at 10 degrees. " + "It goes on and on. " * 20
    role.add(UserMessage(start + "All is well."))
    assert role.find_news([UserMessage(start + "All is lost.")])
    assert role.find_news([UserMessage("short at 10 degrees")])
    assert role.find_news([UserMessage(start.upper() + "all is well.")]) == []


def test_a_model_that_is_down(open_store: OpenStore, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    """Messages are kept all the same, known by their words meanwhile, and by meaning when it answers again."""
    embedder = FailingEmbedder()
    store = open_store(embedder=embedder, known_similarity=0.8)
    role = store.recover("r")
    assert role.add(UserMessage("the red fox jumps over the lazy dog"))
    similar = UserMessage("the red fox jumps over the lazy dog again")
    same = UserMessage("The red fox jumps over the lazy dog")
    with caplog.at_level(logging.WARNING):
        assert role.find_news([same, similar]) == [similar]
    assert "by their words alone" in caplog.text
    embedder.recover()
    assert role.find_news([same, similar]) == [similar]
    clock.advance(3600)
    store.save()
    assert role.find_news([same, similar]) == []


def test_a_node_that_is_not_watched_is_told_so(open_store: OpenStore) -> None:
    store = open_store(watch=["planner"])

    def said(node: str, **metadata: str) -> MemoryWritePayload:
        return MemoryWritePayload(
            inputs_text="What now?",
            output_snapshot=MemoryContentSnapshot(text=f"{node} says so."),
            source=node,
            metadata={**metadata},
        )

    assert store.update(said("planner")).status is WriteStatus.STORED
    outcome = store.update(said("reviewer"))
    assert (outcome.status, "'reviewer' is not watched" in outcome.reason) == (WriteStatus.SKIPPED, True)
    assert store.update(said("writer", cause_by="my.planner")).status is WriteStatus.STORED
    assert store.count() == 2


def test_what_nodes_wrote_for_a_role_is_recovered(open_store: OpenStore) -> None:
    """And what was imported: without a message in it, an item is what an assistant said."""
    store = open_store(ttl_days=1)
    answer = MemoryContentSnapshot(text="On June 2nd.")
    scope = Scope(agent="writer")
    store.update(MemoryWritePayload(inputs_text="When?", output_snapshot=answer, scope=scope, source="writer"))
    store.add([MemoryItem(content_summary="An old note.", scope=scope, created_at=5.0)])
    first, second = store.recover("writer").get()
    assert (first.content, first.source, first.is_ai_message()) == ("When?\nOn June 2nd.", "writer", True)
    assert (second.content, second.created_at) == ("An old note.", 5.0)
    assert store.recover("writer").update(replace(second, content="A newer note."))
    assert [message.content for message in open_store().recover("writer").get()] == [
        "When?\nOn June 2nd.",
        "A newer note.",
    ]
    assert store.recent(2)[1].expires_at == store.setup.clock() + 86_400


def test_an_item_that_is_no_message_any_more_is_named(open_store: OpenStore) -> None:
    store = open_store()
    broken = MemoryItem(
        id="broken",
        content_summary="x",
        metadata={"message": {"type": "Letter", "id": "1", "role": "user"}},
        output_snapshot=MemoryContentSnapshot(text="x"),
        scope=Scope(agent="r"),
    )
    store.add([broken])
    with pytest.raises(MessageError, match=r"'broken'.*'Letter'"):
        store.recover("r")
    assert store.delete(ids=["broken"]) == 1
    assert store.recover("r").count() == 0
