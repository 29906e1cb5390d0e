"""A text that the embedding service refuses: the others are embedded, and every command that shows it names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import devmem as library
from tests.models.service import ChatService, limited

from .conftest import Devmem

MakeWorkflow = Callable[[str], Path]
LONG = "No full stop stands in this note, so it is one passage " * 9


@pytest.fixture
def service(service: ChatService) -> ChatService:
    service.script = [limited(characters=400, status=413)]
    return service


def stored(service: ChatService, place: str, more: str = "") -> str:
    params = f"{{max_retries: 0{more}}}"
    embedding = f'{{provider: openai, model: m, api_key: k, base_url: "{service.address}", params: {params}}}'
    return f"memory: [{{name: notes, type: simple, config: {{memory_path: {place}, embedding: {embedding}}}}}]\n"


@pytest.mark.parametrize("place", ["notes.db", "notes.json"])
def test_it_waits_by_itself_and_is_named(
    make_workflow: MakeWorkflow, devmem: Devmem, service: ChatService, place: str
) -> None:
    path = make_workflow(stored(service, place))
    with library.open(f"{path}#notes") as memory:
        refused, *_ = memory.add([LONG, *(f"short note {at}" for at in range(20))])
        waiting = [item.id for item in memory.list(30) if item.embedding is None]
    assert waiting == [refused]
    service.requests.clear()
    with library.open(f"{path}#notes") as memory:
        assert memory.search("note", limit=30)
        memory.add("one more")
    texts = {text for request in service.requests for text in request["input"]}
    assert texts == {"note", "one more"}, "the refused text is not sent again by opening, searching and writing"

    reason = f"notes: item {refused} has no embedding, as its text was refused: {service.address}/: status 413: at most"
    assert reason in devmem("doctor", path).stderr
    assert reason in devmem("stores", path).stderr
    (numbers,) = json.loads(devmem("stores", path, "--json").stdout)["stores"]
    assert list(numbers["refused"]) == [refused]
    done = devmem("reindex", path, "notes", code=1)
    assert reason in done.stderr
    assert "stopped answering" not in done.stderr
    assert "embedding pending" not in devmem("search", path, "notes", "note").stderr

    path = make_workflow(stored(service, place, ", max_length: 300"))
    service.requests.clear()
    devmem("reindex", path, "notes")
    texts = {text for request in service.requests for text in request["input"]}
    assert LONG.strip()[:300] in texts
    assert place == "notes.json" or texts == {"probe", LONG.strip()[:300]}, "the others have their vectors"
    assert "refused" not in devmem("doctor", path).stderr


def test_a_service_that_takes_ten_texts_a_request(make_workflow: MakeWorkflow, service: ChatService) -> None:
    service.script = [limited(texts=10)]
    with library.open(f"{make_workflow(stored(service, 'notes.db'))}#notes") as memory:
        memory.add([f"note {at}" for at in range(71)])
        assert all(item.embedding is not None for item in memory.list(100))
