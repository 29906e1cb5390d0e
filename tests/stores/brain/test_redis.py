"""A real Redis: what it holds expires, is shared, goes away and comes back; nothing is lost by it."""

from __future__ import annotations

import logging
import re
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem import ConfigError, Filter, Scope
from devmem.config import parse_workflow
from devmem.errors import BrainRedisError, MissingExtraError, install_command
from devmem.messages import Message, Role
from devmem.plugins import registry
from devmem.storage import EraseRequest
from devmem.stores import WriteStatus
from devmem.testing import ManualClock
from devmem_stores.brain import BrainMemory
from devmem_stores.brain.config import ChatKey, RedisConfig
from devmem_stores.brain.state import BrainState, StoredMessage, Summary, dump_state, load_state, merge, without

from .conftest import MakeBrain, RedisServer

KEY = "brain:ann:c"


def contents(history: list[Message]) -> list[str]:
    return [message.content for message in history]


def run(server: RedisServer, command: str, *arguments: Any) -> Any:
    with server.client() as client:
        return cast("Any", client.execute_command(command, *arguments))


def test_without_the_package_the_extra_is_named(make_brain: MakeBrain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store without Redis does not need it."""
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingExtraError, match=re.escape(install_command("redis"))):
        make_brain(redis={"url": "redis://127.0.0.1:1"})
    assert make_brain().brain().add_talk("Hello").failure is None


@pytest.mark.parametrize("password", ["p@ss/w0rd#1", "пароль-123"])
def test_a_password_that_the_server_repeats_is_in_no_error(make_brain: MakeBrain, password: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            with suppress(OSError):  # the test is over
                while True:
                    connection, _ = server.accept()
                    connection.recv(4096)
                    connection.sendall(f"-ERR {password} and {quote(password, safe='')} are wrong\r\n".encode() * 9)
                    connection.close()

        threading.Thread(target=refuse, daemon=True).start()
        place = f"127.0.0.1:{server.getsockname()[1]}"
        for url in (f"redis://:{quote(password, safe='')}@{place}", f"redis://{place}"):
            redis = {"url": url, "password": password} if "@" not in url else {"url": url}
            failure = make_brain(redis=redis).brain().add_talk("Hello").failure
            assert failure is not None
            assert password not in str(failure)
            assert quote(password, safe="") not in str(failure)


def test_a_state_expires(make_brain: MakeBrain, redis_server: RedisServer) -> None:
    """Half an hour after the last change, unless the configuration says otherwise; the file has it still."""
    brain = make_brain(redis={"url": redis_server.url}).brain("ann", "c")
    brain.add_talk("Hello")
    assert 1_790_000 < run(redis_server, "PTTL", KEY) <= 1_800_000
    run(redis_server, "PEXPIRE", KEY, 5_000)
    assert contents(brain.history) == ["Hello"]
    assert run(redis_server, "PTTL", KEY) <= 5_000
    brain.add_talk("Are you there?")
    assert run(redis_server, "PTTL", KEY) > 1_790_000
    run(redis_server, "PEXPIRE", KEY, 0)
    assert run(redis_server, "EXISTS", KEY) == 0
    assert contents(brain.history) == ["Hello", "Are you there?"]
    brain.add_answer("Yes")
    assert run(redis_server, "EXISTS", KEY) == 1
    assert contents(brain.history) == ["Hello", "Are you there?", "Yes"]


_TALKING = """
import sys
from pathlib import Path
from devmem.stores import StoreSetup, WriteStatus
from devmem_stores.brain import BrainConfig, BrainMemory
folder, url, name, count = sys.argv[1:]
redis = {"url": url, "retry_after": 0.01} if url else None
config = BrainConfig.model_validate({"memory_path": "memory.db", "redis": redis})
store = BrainMemory(StoreSetup(name="brain", store_type="brain", config=config, base_dir=Path(folder)))
store.load()
brain = store.brain("ann", "c")
print("ready", flush=True)
sys.stdin.readline()
for n in range(int(count)):
    outcome = brain.add_talk(f"{name} says {n}")
    assert outcome.status is WriteStatus.STORED, outcome
    print("kept" if outcome.failure is None else "fallback", flush=True)
store.close()
print("end", flush=True)
"""
"""Adds messages to one conversation when a line comes in; `fallback` is printed where a failure is reported."""


def started(start_script: Callable[..., Any], folder: Path, url: str, count: int) -> list[Any]:
    """Let two processes talk at once in one conversation."""
    both = [start_script(_TALKING, folder, url, name, count) for name in ("one", "two")]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    return both


def assert_all_is_there(store: BrainMemory, count: int) -> None:
    """Each message of both is in the history or in one summary, and in its order."""
    state = store.brain("ann", "c").snapshot()
    listed = [source for summary in state.summaries for source in summary.sources]
    listed += [entry.item_id for entry in state.entries]
    assert len(set(listed)) == len(listed) == 2 * count
    kept = [item.content_summary for item in store.recent(2 * count)][::-1]
    for name in ("one", "two"):
        assert [text for text in kept if f" {name} " in text] == [f"user: {name} says {n}" for n in range(count)]


@pytest.mark.parametrize("with_redis", [True, False])
def test_two_processes(
    make_brain: MakeBrain, redis_server: RedisServer, tmp_path: Path, start_script: Callable[..., Any], with_redis: bool
) -> None:
    """Both change one conversation at once; no change undoes another."""
    url = redis_server.url if with_redis else ""
    for process in started(start_script, tmp_path, url, 20):
        assert process.stdout.readlines() == ["kept\n"] * 20 + ["end\n"]
    assert_all_is_there(make_brain(**({"redis": {"url": url}} if with_redis else {})), 20)


def test_a_server_that_keeps_dying_under_two_processes(
    make_brain: MakeBrain, redis_server: RedisServer, tmp_path: Path, start_script: Callable[..., Any]
) -> None:
    """It comes back four times, twice without its data."""
    both = started(start_script, tmp_path, redis_server.url, 40)
    lines: list[str] = []
    for attempt in range(4):
        lines += [both[0].stdout.readline() for _ in range(5)]
        redis_server.kill()
        lines += [both[0].stdout.readline() for _ in range(4)]
        if attempt % 2:
            redis_server.forget_all()
        redis_server.start()
    lines += both[0].stdout.readlines()
    assert both[1].stdout.readlines()[-1] == "end\n"
    assert "fallback\n" in lines
    assert lines[-1] == "end\n"
    store = make_brain(redis={"url": redis_server.url})
    assert store.brain("ann", "c").save()
    assert_all_is_there(store, 40)


def test_a_server_that_is_killed_and_comes_back(
    make_brain: MakeBrain, redis_server: RedisServer, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests back off; then what was said meanwhile is written to it."""
    store = make_brain(redis={"url": redis_server.url})
    brain = store.brain("ann", "c")
    brain.add_talk("before")
    redis_server.kill()
    with caplog.at_level(logging.INFO):
        outcome = brain.add_talk("meanwhile")
        store.brain("bob", "c").add_talk("of bob")
    assert outcome.status is WriteStatus.STORED
    assert isinstance(outcome.failure, BrainRedisError)
    assert len([line for line in caplog.messages if "could not read a conversation" in line]) == 1
    assert (brain.is_dirty, brain.save(), contents(brain.history)) == (True, False, ["before", "meanwhile"])
    redis_server.start()
    assert brain.add_talk("while requests back off").failure is not None
    clock.advance(60)
    with caplog.at_level(logging.INFO):
        assert brain.add_talk("after").failure is None
    assert "shares its conversations in Redis again" in caplog.text
    assert not brain.is_dirty
    expected = ["before", "meanwhile", "while requests back off", "after"]
    elsewhere = make_brain(path=None, redis={"url": redis_server.url})
    assert contents(elsewhere.brain("ann", "c").history) == expected
    assert contents(elsewhere.brain("bob", "c").history) == ["of bob"]


def test_the_next_process_writes_what_redis_missed(make_brain: MakeBrain, redis_server: RedisServer) -> None:
    redis = {"url": redis_server.url}
    redis_server.kill()
    store = make_brain(redis=redis)
    store.brain("ann", "c").add_talk("meanwhile")
    store.close()
    redis_server.start()
    make_brain(redis=redis)
    assert b"meanwhile" in run(redis_server, "GET", KEY)


def test_both_sides_of_an_outage_come_together(
    make_brain: MakeBrain, redis_server: RedisServer, clock: ManualClock
) -> None:
    """One machine lost sight of Redis, the other went on there."""
    redis = {"url": redis_server.url}
    one, two = make_brain(path="one.db", redis=redis), make_brain(path="two.db", redis=redis)
    one.brain().add_talk("before")
    redis_server.kill()
    assert one.brain().add_talk("of the one").failure is not None
    redis_server.start()
    clock.advance(1)
    assert two.brain().add_talk("of the other").failure is None
    clock.advance(60)
    one.save()
    for store in (one, two):
        assert contents(store.brain().history) == ["before", "of the one", "of the other"]


def test_what_is_forgotten_while_redis_is_down_stays_forgotten(
    make_brain: MakeBrain, redis_server: RedisServer, clock: ManualClock
) -> None:
    store = make_brain(redis={"url": redis_server.url})
    brain = store.brain("ann", "c")
    outcome = brain.add_talk("forget this")
    brain.add_talk("keep this")
    redis_server.kill()
    assert outcome.item_id is not None
    assert store.delete(ids=[outcome.item_id]) == 1
    redis_server.start()
    clock.advance(60)
    store.save()
    assert contents(brain.history) == ["keep this"]
    assert b"forget this" not in run(redis_server, "GET", KEY)
    store.clear()
    assert b"keep this" not in run(redis_server, "GET", KEY)


def test_a_conversation_that_is_erased_leaves_no_key(make_brain: MakeBrain, redis_server: RedisServer) -> None:
    """Neither in Redis nor in the file; others stay, and the receipt says what Redis may still have."""
    store = make_brain(redis={"url": redis_server.url})
    for user in ("ann", "bob"):
        store.brain(user, "c").add_talk(f"Hello from {user}")
    done = store.erase_selected(EraseRequest(where=Filter(scope=Scope(user="ann"))))
    assert run(redis_server, "KEYS", "*") == [b"brain:bob:c"]
    assert [left.place.startswith("Redis at") for left in done.residues] == [True]
    assert b"ann" not in b"".join(file.read_bytes() for file in store.files() if file.is_file())
    assert contents(store.brain("bob", "c").history) == ["Hello from bob"]


@pytest.mark.parametrize("value", [b'{"history": [], "knowledge": []}', b"\xff\xfe"])
def test_what_others_keep_under_the_key_is_left_alone(
    make_brain: MakeBrain, redis_server: RedisServer, value: bytes
) -> None:
    run(redis_server, "SET", KEY, value)
    brain = make_brain(redis={"url": redis_server.url}).brain("ann", "c")
    outcome = brain.add_talk("Hello")
    assert isinstance(outcome.failure, BrainRedisError)
    assert "redis.prefix" in str(outcome.failure)
    assert contents(brain.history) == ["Hello"]
    assert run(redis_server, "GET", KEY) == value


def test_one_state_that_cannot_be_shared_does_not_hold_up_the_others(
    make_brain: MakeBrain, redis_server: RedisServer, clock: ManualClock
) -> None:
    store = make_brain(redis={"url": redis_server.url})
    redis_server.kill()
    for user in ("ann", "bob", "cid"):
        store.brain(user, "c").add_talk(f"of {user}")
    redis_server.start()
    run(redis_server, "SET", KEY, b"something else")
    clock.advance(60)
    store.save()
    dirty = [user for user in ("ann", "bob", "cid") if store.brain(user, "c").is_dirty]
    assert dirty == ["ann"]


def test_a_server_that_does_not_answer_is_not_waited_for_each_time(make_brain: MakeBrain) -> None:
    """One call waits for the timeout; the others are told at once."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        brain = make_brain(redis={"url": url, "timeout": 0.2}).brain()
        brain.add_talk("first")
        failures = [brain.add_talk(f"message {n}").failure for n in range(20)]
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert all("asked again in" in str(failure) for failure in failures)


@given(one=st.tuples(st.text(max_size=8), st.text(max_size=8)), two=st.tuples(st.text(max_size=8), st.text(max_size=8)))
def test_no_two_conversations_share_a_key(one: tuple[str, str], two: tuple[str, str]) -> None:
    first, second = (ChatKey(user=user, chat=chat) for user, chat in (one, two))
    assert (str(first) == str(second)) == (one == two)
    assert ChatKey.parse(str(first)) == first
    assert str(first).isascii()
    assert str(first).isprintable()


def test_host_and_port_are_an_address_and_one_of_something_else_is_refused() -> None:
    config = RedisConfig.model_validate({"host": "cache", "port": 6380, "db": 2})
    assert config.url.get_secret_value() == "redis://cache:6380/2"
    text = "memory: [{name: b, type: brain, config: {redis: {url: 'http://:hush@127.0.0.1'}}}]"
    with pytest.raises(ConfigError, match="redis://") as caught:
        parse_workflow(text, registry)
    assert "hush" not in str(caught.value)


def test_states_changed_apart_after_expiry_are_merged(make_brain: MakeBrain, redis_server: RedisServer) -> None:
    """Each machine restarts from its own copy; the version numbers alone do not tell which one is complete."""
    redis = {"url": redis_server.url}
    one = make_brain(path="one.db", redis=redis).brain("ann", "c")
    two = make_brain(path="two.db", redis=redis).brain("ann", "c")
    one.add_talk("m1")
    two.add_answer("m2")
    one.add_talk("m3")
    run(redis_server, "DEL", KEY)
    two.add_answer("m4")
    one.add_talk("m5")
    for brain in (one, two):
        assert sorted(contents(brain.history)) == ["m1", "m2", "m3", "m4", "m5"]
    run(redis_server, "DEL", KEY)
    assert sorted(contents(two.history)) == sorted(contents(one.history))


def test_forgotten_message_stays_forgotten_by_old_copies(make_brain: MakeBrain, redis_server: RedisServer) -> None:
    redis = {"url": redis_server.url}
    first, second = make_brain(path="one.db", redis=redis), make_brain(path="two.db", redis=redis)
    one, two = first.brain("ann", "c"), second.brain("ann", "c")
    secret = one.add_talk("a secret").item_id
    two.add_answer("m2")
    first.delete(ids=[secret or ""])
    for number in range(10):
        one.add_talk(f"filler {number}")
    run(redis_server, "DEL", KEY)
    two.add_answer("m3")
    one.add_talk("m4")
    assert "a secret" not in one.snapshot().whole_text()
    assert "a secret" not in two.snapshot().whole_text()


TEXTS = st.text(st.characters(exclude_categories=[]), max_size=12)


def entry(number: int, content: str = "said") -> StoredMessage:
    return StoredMessage(message=Message(content, id=f"m{number}", created_at=float(number)), item_id=f"i{number}")


def summary(name: str, first: int, count: int, level: int = 1) -> Summary:
    return Summary(
        id=name,
        text=f"summary {name}",
        level=level,
        start=float(first),
        end=float(first + count - 1),
        messages=count,
        sources=tuple(f"i{n}" for n in range(first, first + count)),
    )


@st.composite
def states(draw: st.DrawFn) -> BrainState:
    """A state as it comes about: the first messages summarized in runs, some of the rest in the history."""
    at, summaries = 0, []
    for number, count in enumerate(draw(st.lists(st.integers(1, 3), max_size=3))):
        summaries.append(summary(f"s{number}{count}{draw(st.sampled_from('ab'))}", at, count))
        at += count
    rest = draw(st.sets(st.integers(at, at + 5)))
    return BrainState(
        entries=tuple(entry(n) for n in sorted(rest)),
        knowledge_entries=tuple(entry(n) for n in sorted(draw(st.sets(st.integers(100, 103))))),
        summaries=tuple(summaries),
        version=draw(st.integers(0, 9)),
    )


@given(one=states(), two=states())
def test_joining_loses_no_message_and_tells_none_twice(one: BrainState, two: BrainState) -> None:
    joined = merge(one, two)
    assert joined.known_items() == one.known_items() | two.known_items()
    assert merge(two, one).known_items() == joined.known_items()
    assert not {e.item_id for e in joined.entries} & joined.summarized_items()
    assert [e.message.created_at for e in joined.entries] == sorted(e.message.created_at for e in joined.entries)
    assert joined.version == max(one.version, two.version)


@given(one=states(), two=states(), gone=st.sets(st.sampled_from([f"i{n}" for n in range(12)])))
def test_what_one_side_forgot_stays_forgotten(one: BrainState, two: BrainState, gone: set[str]) -> None:
    forgot = without(one, gone, lambda items: [entry(int(item[1:])) for item in items])
    assert not forgot.known_items() & gone
    assert forgot.known_items() == one.known_items() - gone
    if forgot != one:
        assert not merge(forgot, two).known_items() & gone
        assert not merge(two, forgot).known_items() & gone


def test_the_summary_of_more_messages_is_taken() -> None:
    one = BrainState(summaries=(summary("of ten", 0, 10),), entries=(entry(10),), version=3)
    two = BrainState(summaries=(summary("of eight", 0, 8),), entries=tuple(map(entry, (8, 9, 10, 11))), version=5)
    joined = merge(two, one)
    assert [s.id for s in joined.summaries] == ["of ten"]
    assert [e.item_id for e in joined.entries] == ["i10", "i11"]


@given(state=states(), text=TEXTS, talk=st.none() | TEXTS, role=st.sampled_from(Role))
def test_bytes_and_back(state: BrainState, text: str, talk: str | None, role: Role) -> None:
    said = Message(text, role=role, source="x", metadata={"a": [1, None]}, created_at=1.5)
    state = BrainState(
        entries=(*state.entries, StoredMessage(message=said, item_id="last")),
        summaries=state.summaries,
        last_talk=talk,
        last_history_id=said.id,
        last_number=7,
        removed=("i1",),
        version=state.version,
    )
    again = load_state(dump_state(state))
    assert again == state
    assert again.entries[-1].message.identical(said)
