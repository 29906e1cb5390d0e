"""Failures of mem0: typed errors, attempts, pauses, and no key in any text."""

from __future__ import annotations

import logging
import traceback
from base64 import b64encode
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote

import pytest

from devmem import ConfigError, MemoryManager, MemoryWritePayload, load_workflow
from devmem.config import Attachment
from devmem.errors import Mem0Error
from devmem.testing import ManualClock
from devmem_stores.mem0 import Mem0Memory

from .conftest import MakeStore, mem0_error
from .fake_mem0 import KEY, FakeMem0, Fault, failure

FAULTS: dict[str, tuple[Callable[[], Fault], str]] = {
    "401": (lambda: failure(401), "auth"),
    "429": (lambda: failure(429), "rate limit"),
    "400": (lambda: failure(400), "rejected"),
    "500": (lambda: failure(500), "server"),
    "502 with nested JSON": (lambda: Fault("status", 502, body=b"[" * 100_000), "server"),
    "JSON of another kind": (lambda: Fault("body", 200, body=b'"fine"'), "answer"),
    "no JSON": (lambda: Fault("body", 200, body=b"<html>hello</html>"), "answer"),
    "half closed": (lambda: Fault("cut"), "connection"),
    "dropped": (lambda: Fault("drop"), "connection"),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_every_failure_is_typed_and_raised(fault: str, make_store: MakeStore, fake: FakeMem0) -> None:
    make, kind = FAULTS[fault]
    fake.faults += [make() for _ in range(3)]
    with mem0_error(kind):
        make_store(retries=0).retrieve("", "tea")


@pytest.mark.parametrize("ask", [lambda store: store.retrieve("", "tea"), Mem0Memory.count, Mem0Memory.clear])
def test_a_server_that_recovers_costs_two_pauses(
    ask: Callable[[Mem0Memory], object], store: Mem0Memory, fake: FakeMem0, sleeps: list[float]
) -> None:
    fake.faults += [failure(500), failure(503)]
    ask(store)
    assert sleeps == [0.5, 1.0]


def test_what_will_never_work_is_not_tried_again(store: Mem0Memory, fake: FakeMem0, sleeps: list[float]) -> None:
    for fault in (failure(401), failure(422)):
        fake.faults.append(fault)
        with pytest.raises(Mem0Error):
            store.retrieve("", "tea")
    assert sleeps == []
    assert len(fake.called("/v3/memories/search/")) == 2


@pytest.mark.parametrize("status", [400, 401, 500])
def test_what_repeats_the_request_is_left_out(
    status: int, store: Mem0Memory, fake: FakeMem0, caplog: pytest.LogCaptureFixture
) -> None:
    """Errors go to logs, which hold no contents."""
    for text in ("Quillfeather", "Quillfeather moved the launch to June 2nd"):
        detail = f"invalid: {{'query': '{text}', 'messages': [{{'content': '{text}'}}]}}"
        fake.faults += [failure(status, detail) for _ in range(8)]
        with pytest.raises(Mem0Error, match="words are left out") as caught:
            store.retrieve("", text)
        assert "Quillfeather" not in f"{caught.value} {caplog.text}"
        fake.faults.clear()


@pytest.mark.parametrize("around", ["{}\n", "\ufeff{}", "{}\u00a0", " {}\r"])
def test_a_key_that_the_service_repeats_is_in_no_error(
    make_store: MakeStore, fake: FakeMem0, caplog: pytest.LogCaptureFixture, around: str
) -> None:
    """White space around it is left out, or the service would refuse it."""
    store = make_store(api_key=around.format(KEY), retries=0)
    assert store.retrieve("", "tea") == []
    encoded = b64encode(f"user:{KEY}".encode()).decode()
    fake.faults.append(failure(401, f"wrong: {KEY}, {encoded}, {quote(KEY)}"))
    with mem0_error("auth", match=r"wrong: \*\*\*") as caught:
        store.retrieve("", "tea")
    assert KEY not in f"{caught.value} {caplog.text}"
    assert encoded not in str(caught.value)


@pytest.mark.parametrize(
    ("header", "pause"), [("7", 7.0), ("1.5", 1.5), ("soon", 0.5), (formatdate(0, usegmt=True), 0.0)]
)
def test_retry_after_is_kept_to(
    header: str, pause: float, store: Mem0Memory, fake: FakeMem0, sleeps: list[float]
) -> None:
    fake.faults.append(failure(429, Retry_After=header))
    store.retrieve("", "tea")
    assert sleeps == [pause]


def test_long_retry_after_stops_further_requests_until_then(
    store: Mem0Memory, fake: FakeMem0, sleeps: list[float], clock: ManualClock
) -> None:
    fake.faults.append(failure(429, Retry_After="3600"))
    with mem0_error("rate limit") as caught:
        store.retrieve("", "tea")
    assert caught.value.retry_after == 3600
    clock.advance(3599)
    with mem0_error("unavailable", match="HTTP 429"):
        store.retrieve("", "tea")
    assert len(fake.called("/v3/memories/search/")) == 1
    clock.advance(2)
    assert store.retrieve("", "tea") == []
    assert sleeps == []


def test_circuit_breaker_opens_and_tries_again(store: Mem0Memory, fake: FakeMem0, clock: ManualClock) -> None:
    def ask() -> None:
        store.retrieve("", "tea")

    fake.faults += [failure(500) for _ in range(4)]
    with mem0_error("server"):
        ask()
    count = len(fake.requests)
    clock.advance(29)
    with mem0_error("unavailable"):
        ask()
    assert len(fake.requests) == count
    clock.advance(2)
    with mem0_error("server"):
        ask()  # one request tries the service out
    assert len(fake.requests) == count + 1
    clock.advance(31)
    with mem0_error("unavailable"):
        ask()  # the pause has doubled
    clock.advance(30)
    ask()
    ask()


def test_no_answer_in_time(make_store: MakeStore, fake: FakeMem0) -> None:
    fake.faults.append(Fault("hang"))
    with mem0_error("timeout"):
        make_store(timeout=0.2, retries=0).retrieve("", "tea")


@pytest.mark.parametrize("ping", [[], "fine", None, 3])
def test_malformed_ping(ping: object, make_store: MakeStore, fake: FakeMem0) -> None:
    fake.ping = ping
    with mem0_error("answer"):
        make_store(retries=0).retrieve("", "tea")


def test_server_of_another_kind_is_told_from_an_outage(make_store: MakeStore, fake: FakeMem0) -> None:
    fake.faults.append(failure(404, "Not Found", path="/v1/ping/"))
    store = make_store()
    assert store.update(MemoryWritePayload(inputs_text="I like tea")).status == "queued"
    fake.faults.append(failure(404, "Not Found", path="/v1/ping/"))
    with mem0_error("setup", match="as the mem0 platform does"):
        store.retrieve("", "tea")


@pytest.mark.parametrize("name", ["org_id", "project_id"])
def test_key_of_another_project_is_refused(name: str, make_store: MakeStore, fake: FakeMem0) -> None:
    """The client of 2.x takes neither id (fault D18: DevAll ends in a TypeError)."""
    with mem0_error("setup", match=f"`{name}` is 'other'"):
        make_store(**{name: "other"}).retrieve("", "tea")


def test_key_that_is_revoked_in_mid_run(store: Mem0Memory, fake: FakeMem0, clock: ManualClock) -> None:
    manager = MemoryManager([Attachment(name="notes")], {"notes": store})
    manager.update(MemoryWritePayload(inputs_text="I like tea."))
    assert fake.texts() == ["I like tea."]
    fake.keys.clear()
    found = manager.retrieve(query="tea?")
    assert found is not None
    assert isinstance(found.failures[0].error, Mem0Error)
    assert found.failures[0].error.kind == "auth"
    assert not found.hits
    manager.update(MemoryWritePayload(inputs_text="I like cake."))
    fake.keys.add(KEY)
    clock.advance(60)
    manager.update(MemoryWritePayload(inputs_text="I like pie."))
    assert fake.texts() == ["I like tea.", "I like cake.", "I like pie."]


@pytest.mark.parametrize("fault", list(FAULTS))
def test_key_is_in_no_log_repr_or_error(
    fault: str, make_store: MakeStore, fake: FakeMem0, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    make, _ = FAULTS[fault]
    broken = make()
    if broken.kind in ("status", "body"):
        broken.body = f'{{"detail": "your key is {KEY}"}}'.encode() if broken.kind == "status" else KEY.encode()
    fake.faults += [broken]
    store = make_store(retries=0)
    manager = MemoryManager([Attachment(name="notes")], {"notes": store})
    result = manager.retrieve(query="tea")
    assert result is not None
    error = result.failures[0].error
    fake.keys.clear()  # the server's answer to this repeats the key
    manager.update(MemoryWritePayload(inputs_text="I like tea"))
    texts = [caplog.text, str(error), repr(error), "".join(traceback.format_exception(error)), repr(store.config)]
    texts += [repr(vars(store)), *(record.getMessage() for record in caplog.records)]
    assert all(KEY not in text for text in texts)


def test_caller_that_handles_an_error_of_its_own_is_not_mistaken(make_store: MakeStore, fake: FakeMem0) -> None:
    store = make_store(retries=0)
    fake.faults.append(failure(500))
    try:
        store.retrieve("", "tea")
    except Mem0Error:
        fake.faults.append(failure(422))
        with mem0_error("rejected"):
            store.retrieve("", "tea")


def test_call_that_took_long_is_not_repeated(
    make_store: MakeStore, fake: FakeMem0, clock: ManualClock, sleeps: list[float]
) -> None:
    store = make_store()
    fake.before_each = lambda _: clock.advance(31)
    fake.faults += [failure(500), failure(500)]
    with mem0_error("server"):
        store.retrieve("", "tea")
    assert sleeps == []


def test_a_guard_is_refused_with_the_reason(tmp_path: Path) -> None:
    """Left out without a word, the key would promise a check that nobody makes."""
    (tmp_path / "flow.yaml").write_text("memory: [{name: m, type: mem0, config: {api_key: k, guard: {}}}]\n")
    with pytest.raises(ConfigError, match="no quarantine") as caught:
        load_workflow(tmp_path / "flow.yaml")
    assert "flow.yaml:1: memory[0].config" in str(caught.value)
