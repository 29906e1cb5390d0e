"""The contract of ADK's memory services, and the claims of our page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import pytest
from google.adk.cli.service_registry import get_service_registry, load_services_module
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

import devmem
from devmem.adapters.google_adk import DevmemMemoryService
from devmem.errors import NotStoredError, ScopeError
from devmem.storage import differs_from
from devmem.testing import HashEmbedder
from tests.adapters.contract import ANSWER, QUESTION, RESULT, Histories, Searches, Talks
from tests.adapters.pages import run_example

ANN: dict[str, Any] = {"app_name": "shop", "user_id": "ann"}


@pytest.fixture
def service(memory: devmem.Memory) -> DevmemMemoryService:
    return DevmemMemoryService(memory)


def run(done: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(done)


def event(name: str, text: str, author: str = "user", *, at: float = 1_770_000_000.0, **more: Any) -> Event:
    parts = [types.Part(text=text), *more.get("parts", [])]
    role = "user" if author == "user" else "model"
    return Event(id=name, author=author, timestamp=at, content=types.Content(role=role, parts=parts))


def session(*events: Event, name: str = "1", app: str = "shop", user: str = "ann") -> Session:
    return Session(id=name, app_name=app, user_id=user, events=list(events))


def texts(service: DevmemMemoryService, query: str, **scope: str) -> list[str]:
    found = run(service.search_memory(**{**ANN, **scope}, query=query)).memories
    return [entry.content.parts[0].text for entry in found]


def test_a_session_is_found_with_author_and_time(service: DevmemMemoryService) -> None:
    run(service.add_session_to_memory(session(event("1", "The launch is on May 5th."), event("2", "Noted.", "helper"))))
    (entry,) = run(service.search_memory(**ANN, query="When is the launch?")).memories[:1]
    assert entry.content == types.Content(role="user", parts=[types.Part(text="The launch is on May 5th.")])
    assert (entry.id, entry.author) == ("1", "user")
    assert entry.timestamp == "2026-02-02T02:40:00+00:00"


def test_a_turn_late_in_a_session_costs_what_an_early_one_does(
    service: DevmemMemoryService, memory: devmem.Memory
) -> None:
    """Though each hands over the session whole."""
    said, costs = session(), list[float]()
    for turn in range(60):
        said.events += [event(f"{turn}", f"question {turn}"), event(f"{turn} a", f"answer {turn}", "helper")]
        began = time.process_time()
        run(service.add_session_to_memory(said))
        costs.append(time.process_time() - began)
    assert len(memory.list(200, user="ann")) == 120
    assert median(costs[50:]) < 1.5 * median(costs[5:15])


@pytest.mark.parametrize("other", [{"user_id": "bob"}, {"app_name": "bank"}])
def test_applications_and_users_are_apart(service: DevmemMemoryService, other: dict[str, str]) -> None:
    run(service.add_session_to_memory(session(event("1", "Tea without milk."))))
    assert texts(service, "tea") == ["Tea without milk."]
    assert texts(service, "tea", **other) == []


def test_deltas_are_added_once(service: DevmemMemoryService, memory: devmem.Memory) -> None:
    for _ in range(2):
        run(service.add_events_to_memory(**ANN, events=[event("1", "Tea without milk.")], session_id="1"))
    run(service.add_events_to_memory(**ANN, events=[event("2", "Coffee.")], custom_metadata={"room": 4}))
    assert memory.count(user="ann") == 2
    (entry,) = run(service.search_memory(**ANN, query="coffee")).memories
    assert entry.custom_metadata == {"room": 4}


def test_entries_are_added_as_they_are(service: DevmemMemoryService) -> None:
    content = types.Content(role="user", parts=[types.Part(text="Allergic to nuts.")])
    entry = MemoryEntry(
        id="nuts", content=content, author="user", timestamp="2026-05-01T10:00:00+00:00", custom_metadata={"sure": True}
    )
    run(service.add_memory(**ANN, memories=[entry]))
    assert run(service.search_memory(**ANN, query="nuts")).memories == [entry]


def test_an_entry_without_a_text_is_refused(service: DevmemMemoryService, memory: devmem.Memory) -> None:
    text = MemoryEntry(content=types.Content(parts=[types.Part(text="Tea.")]))
    with pytest.raises(NotStoredError, match="no text"):
        run(service.add_memory(**ANN, memories=[text, MemoryEntry(content=types.Content(parts=[]))]))
    assert memory.count(user="ann") == 0


def test_what_is_deleted_stays_deleted(service: DevmemMemoryService) -> None:
    """Its session may be added again and again."""
    whole = session(event("1", "Tea without milk."), event("2", "Tea at four."))
    run(service.add_session_to_memory(whole))
    (entry,) = [one for one in run(service.search_memory(**ANN, query="milk")).memories if one.id == "1"]
    run(service.delete_memory(**ANN, memory_id=entry.id))
    run(service.add_session_to_memory(whole))
    assert texts(service, "tea milk") == ["Tea at four."]


def test_an_entry_that_was_deleted_can_be_added_again(service: DevmemMemoryService) -> None:
    whole = session(event("1", "Tea without milk."))
    run(service.add_session_to_memory(whole))
    for _ in range(2):
        run(service.delete_memory(**ANN, memory_id="1"))
        run(service.add_session_to_memory(whole))
        assert texts(service, "tea") == []
        again = MemoryEntry(id="1", content=types.Content(role="user", parts=[types.Part(text="Tea, no milk.")]))
        run(service.add_memory(**ANN, memories=[again]))
        assert texts(service, "tea") == ["Tea, no milk."]


def test_no_search_finds_what_keeps_the_ids_of_deleted_events() -> None:
    with devmem.open(":memory:", embedding=HashEmbedder()) as memory:
        service = DevmemMemoryService(memory)
        run(service.add_session_to_memory(session(event("1", "Tea without milk."))))
        run(service.delete_memory(**ANN, memory_id="1"))
        assert [memory.search(query, user="ann") for query in ("deleted event 1", "shop (deleted)", "tea")] == [[]] * 3
        others = devmem.Filter(source_name=differs_from("adk.deleted"))
        assert (memory.count(user="ann"), memory.count(user="ann", where=others)) == (1, 0)
        memory.forget(user="ann")
        assert memory.count(user="ann") == 0


def test_what_others_stored_for_the_application_is_found_and_deleted(
    service: DevmemMemoryService, memory: devmem.Memory
) -> None:
    item = memory.add("Ann drinks tea.", user="ann", agent="shop")
    assert [entry.id for entry in run(service.search_memory(**ANN, query="tea")).memories] == [item]
    for app_name, user_id, memory_id in (("shop", "bob", item), ("shop", "ann", ""), ("shop", "ann", item)):
        assert item in memory
        run(service.delete_memory(app_name=app_name, user_id=user_id, memory_id=memory_id))
    assert item not in memory


def test_a_scoped_handle_is_never_left(memory: devmem.Memory) -> None:
    service = DevmemMemoryService(memory.scoped(user="ann"))
    with pytest.raises(ScopeError):
        texts(service, "tea", user_id="bob")


def test_the_example_of_the_page(tmp_path: Path) -> None:
    assert run_example("google_adk", tmp_path) == "The launch is on May 5th.\n"


class TestContract(Talks, Histories, Searches):
    agent = "app"
    page, hands_on = "google_adk", "host ids"

    def converse(self, memory: devmem.Memory, exchanges: Sequence[tuple[str, str]]) -> None:
        service, events = DevmemMemoryService(memory), list[Event]()
        for asked, answer in exchanges:
            events += [event(uuid4().hex, asked), event(uuid4().hex, answer, "helper")]
            run(service.add_session_to_memory(session(*events)))

    def found(self, memory: devmem.Memory, query: str) -> int:
        service = DevmemMemoryService(memory)
        return len(run(service.search_memory(app_name="app", user_id="ann", query=query)).memories)

    def talk(self, memory: devmem.Memory) -> None:
        response = types.Part(function_response=types.FunctionResponse(name="look", response={"result": RESULT}))
        returned = Event(id="2", author="helper", content=types.Content(role="user", parts=[response]))
        events = (event("1", QUESTION), returned, event("3", ANSWER, "helper"))
        run(DevmemMemoryService(memory).add_session_to_memory(session(*events)))


SERVICES = """\
services:
  - {scheme: devmem, type: memory, class: devmem.adapters.google_adk.DevmemMemoryService}
"""


def test_services_yaml_names_a_memory_by_its_uri(tmp_path: Path) -> None:
    """ADK makes the service itself, as `adk web --memory_service_uri=devmem://notes.db` does."""
    (tmp_path / "services.yaml").write_text(SERVICES, encoding="utf-8")
    load_services_module(str(tmp_path))
    made = get_service_registry().create_memory_service("devmem://my%20notes.db", agents_dir=str(tmp_path))
    assert isinstance(made, DevmemMemoryService)
    run(made.add_session_to_memory(session(event("1", "Tea without milk."))))
    assert texts(made, "milk") == ["Tea without milk."]
    run(made.close())
    with devmem.open(tmp_path / "my notes.db") as memory:
        assert memory.count(user="ann") == 1


def test_a_service_needs_one_memory(memory: devmem.Memory) -> None:
    both: dict[str, Any] = {"memory": memory, "uri": "devmem://notes.db"}
    for arguments in ({}, both):
        with pytest.raises(TypeError, match="either"):
            DevmemMemoryService(**arguments)
    with pytest.raises(ValueError, match=r"devmem://notes\.db"):
        DevmemMemoryService(uri="notes.db")


def test_a_number_that_json_has_not_is_returned_as_text(service: DevmemMemoryService) -> None:
    given = {"score": float("nan"), "nested": {"limit": float("inf")}, "share": 0.5}
    run(service.add_events_to_memory(**ANN, events=[event("1", "It rains.")], custom_metadata=given))
    (entry,) = run(service.search_memory(**ANN, query="rains")).memories
    assert entry.custom_metadata == {"score": "NaN", "nested": {"limit": "Infinity"}, "share": 0.5}
