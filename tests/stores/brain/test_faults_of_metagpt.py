"""Faults of MetaGPT's brain memory (MetaGPT `ba286897`) that this store does not have, one test each."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from devmem.errors import ChatModelError
from devmem.messages import Message, Role
from devmem.stores import WriteStatus
from devmem.testing import ScriptedChat

from .conftest import MakeBrain, RedisServer


def test_b2_no_secret_is_written(
    make_brain: MakeBrain, redis_server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """There, the model's key and Redis's password are part of what is saved."""
    redis_server.kill()
    redis_server.password = "hush-redis"
    redis_server.start()
    llm = {"provider": "openai", "model": "testing", "api_key": "hush-key"}
    redis = {"url": redis_server.url, "password": "hush-redis"}
    with caplog.at_level(logging.DEBUG):
        store = make_brain(chat=ScriptedChat(), llm=llm, redis=redis)
        store.brain("ann", "c").add_talk("Hello")
    client = redis_server.client()
    (key,) = client.keys("*")
    written = [client.get(key), *(file.read_bytes() for file in tmp_path.rglob("memory*") if file.is_file())]
    shown = (repr(store.config), repr(store.setup), caplog.text)
    assert all(b"hush" not in part for part in written if isinstance(part, bytes))
    assert all("hush" not in part for part in shown)
    client.close()


def test_b3_ids_of_two_kinds_go_together(make_brain: MakeBrain) -> None:
    """There, after a message with a number for its id, every other kind of id is dropped."""
    brain = make_brain().brain()
    for message_id in (
        "7",
        "0f8fad5bd9cb469fa16570867728950e",
        "8",
        "another",
        "12345678901234567890123456789012",
        "9",
    ):
        added = brain.add_history(Message(f"message {message_id}", id=message_id))
        assert added.status is WriteStatus.STORED
    late = brain.add_history(Message("late", id="3"))
    assert (late.status, late.reason) == (WriteStatus.SKIPPED, "message 3 does not come after message 9")
    again = brain.add_history(Message("again", id="another"))
    assert (again.status, again.item_id) == (WriteStatus.DUPLICATE, "another")
    assert len(brain.history) == 6


def test_b3_the_callers_message_stays_as_it_is(make_brain: MakeBrain) -> None:
    """There, adding a message changes its role."""
    said = Message("Hello", role=Role.SYSTEM, metadata={"seen": True})
    brain = make_brain().brain()
    brain.add_talk(said)
    assert said.role is Role.SYSTEM
    (kept,) = brain.history
    assert (kept.id, kept.role, kept.metadata) == (said.id, Role.USER, said.metadata)


def test_b4_a_summary_that_is_set_is_kept(make_brain: MakeBrain) -> None:
    """There, it is kept only if something else was changed before."""
    brain = make_brain().brain()
    for n in range(4):
        brain.add_talk(f"message {n}")
    assert brain.save()
    brain.set_history_summary("They counted.")
    again = make_brain().brain()
    assert again.historical_summary == "They counted."
    assert [message.content for message in again.history] == ["message 2", "message 3"]
    assert [item.content_summary for item in again.sources(again.summaries[0])] == [
        "user: message 0",
        "user: message 1",
    ]
    version = again.snapshot().version
    again.set_history_summary("They counted.")
    assert again.snapshot().version == version


def test_b5_a_model_that_does_not_shorten_is_not_asked_for_ever(
    make_brain: MakeBrain, caplog: pytest.LogCaptureFixture
) -> None:
    """There, 6,900 characters cost 736 calls, and then an error."""
    chat = ScriptedChat(*[lambda request: request.messages[-1].content] * 1000)
    brain = make_brain(chat=chat).brain()
    brain.add_talk("abcdefg hij " * 575)
    found = brain.summarize()
    assert 0 < len(found.split()) <= 200
    assert len(chat.requests) == 5
    assert "does not shorten" in caplog.text


@pytest.mark.parametrize("users", [("ann", "bob"), ("a:b", "a"), ("", "ann")])
def test_b6_b8_everybody_has_a_key(make_brain: MakeBrain, redis_server: RedisServer, users: tuple[str, str]) -> None:
    """There, the key is missing from the settings, or one placeholder for all, and its parts are not escaped."""
    store = make_brain(redis={"url": redis_server.url, "prefix": "my app:1"})
    one, two = store.brain(users[0], "c"), store.brain(users[1], "b:c")
    one.add_talk("of the one")
    two.add_talk("of the other")
    assert [message.content for message in one.history] == ["of the one"]
    assert [message.content for message in two.history] == ["of the other"]
    client = redis_server.client()
    keys = [key.decode() for key in client.keys("*")]  # type: ignore[union-attr]
    client.close()
    assert len(keys) == 2
    assert all(key.startswith("my%20app%3A1:") and key.count(":") == 2 for key in keys)


def test_b7_untrue_is_not_true(make_brain: MakeBrain) -> None:
    """There, any answer with TRUE in it is yes."""
    brain = make_brain(chat=ScriptedChat("UNTRUE", "FALSE")).brain()
    with pytest.raises(ChatModelError):
        brain.is_related("one", "two")
    assert not brain.is_related("one", "two")


def test_the_files_are_nobody_elses(make_brain: MakeBrain, tmp_path: Path) -> None:
    """People's words are in it."""
    make_brain().brain().add_talk("Hello")
    make_brain(path="memory.json").brain().add_talk("Hello")
    files = [*tmp_path.glob("memory.db*"), *tmp_path.glob("memory.json*")]
    assert {"memory.db", "memory.json", "memory.json.states"} <= {each.name for each in files}
    assert all(each.stat().st_mode & 0o077 == 0 for each in files)
