"""`devmem run` with a chat model behind HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models.service import ChatService, Reply, Request, answering, failing

from .conftest import Devmem, one_paragraph

MakeWorkflow = Callable[[str], Path]
KEY = "sk-very-secret-0123456789"
REFUSED = failing(401, {"error": {"message": f"Incorrect API key provided: {KEY}."}})


def echo(request: Request) -> Reply:
    return answering(f"You said: {request['messages'][-1]['content']}")


@pytest.fixture
def service(service: ChatService) -> ChatService:
    service.script = [echo]
    return service


def asking(service: ChatService, **config: object) -> str:
    """Return a workflow with one agent that asks the service."""
    settings = {"provider": "openai", "model": "some-model", "base_url": service.address, "api_key": KEY, **config}
    memories = [{"name": "notes"}]
    node = {"id": "assistant", "type": "agent", "config": {**settings, "role": "Be kind.", "memories": memories}}
    store = {"name": "notes", "type": "simple", "config": {"memory_path": "notes.db"}}
    return json.dumps({"memory": [store], "nodes": [node]})


def test_the_service_is_asked_with_what_is_remembered(
    service: ChatService, make_workflow: MakeWorkflow, devmem: Devmem
) -> None:
    path = make_workflow(asking(service))
    told = devmem("run", path, "--input", "The launch moved to the third of May.")
    assert told.stdout == "You said: The launch moved to the third of May.\n"
    asked = json.loads(devmem("run", path, "--input", "When is the launch?", "--json").stdout)
    assert asked["answer"] == "You said: When is the launch?"
    assert len(asked["nodes"][0]["recalled"]) == 1
    messages = service.requests[-1]["messages"]
    assert messages[0] == {"role": "system", "content": "Be kind."}
    assert any("===== Related Memories =====" in message["content"] for message in messages)
    assert service.keys == [f"Bearer {KEY}"] * 2


def test_a_service_that_fails_is_one_paragraph(
    service: ChatService, make_workflow: MakeWorkflow, devmem: Devmem
) -> None:
    service.script = [failing(500)]
    result = devmem("run", make_workflow(asking(service)), "--input", "Hello.", code=2)
    assert "chat model 'some-model' gave no answer" in one_paragraph(result)
    assert len(service.requests) > 1
    assert not result.stdout


def test_a_node_that_fails_is_named_and_what_was_written_before_is_said(
    service: ChatService, make_workflow: MakeWorkflow, devmem: Devmem
) -> None:
    document = json.loads(asking(service, params={"max_retries": 0}))
    scribe = {"id": "scribe", "type": "agent", "config": {"memories": [{"name": "notes"}]}}
    document["nodes"].insert(0, scribe)
    document["edges"] = [{"from": "scribe", "to": "assistant"}]
    path = make_workflow(json.dumps(document))
    service.script = [failing(500)]
    failed = devmem("run", path, "--input", "Ann moved the launch.", code=2)
    paragraph = " ".join(failed.stderr.split())
    assert f"node 'assistant' (openai at {service.address}) failed: chat model 'some-model'" in paragraph
    assert "memory, kept: 1 stored in notes" in paragraph
    assert len(service.requests) == 1
    assert "Ann moved the launch." in devmem("list", path, "notes").stdout
    printed = json.loads(devmem("run", path, "--input", "Is it so?", "--json", code=2).stdout)
    assert (printed["answer"], printed["error"]["node"]) == (None, "assistant")
    assert [node["node"] for node in printed["nodes"]] == ["scribe", "assistant"]
    assert printed["nodes"][0]["writes"]


def test_a_refused_key_is_never_printed(service: ChatService, make_workflow: MakeWorkflow, devmem: Devmem) -> None:
    """Not even where the service repeats it, or a traceback is asked for."""
    service.script = [REFUSED]
    path = make_workflow(asking(service))
    result = devmem("run", path, "--input", "Hello.", code=2)
    assert "Incorrect API key provided: ***" in one_paragraph(result)
    debug = devmem("--debug", "run", path, "--input", "Hello.", code=2)
    assert "Traceback" in debug.stderr
    assert KEY not in result.output + debug.output


def test_a_key_from_the_environment_is_never_printed(
    service: ChatService, make_workflow: MakeWorkflow, devmem: Devmem, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.script = [REFUSED]
    path = make_workflow(asking(service, api_key=""))
    assert "has no key" in one_paragraph(devmem("run", path, "--input", "Hello.", code=2))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert KEY not in devmem("run", path, "--input", "Hello.", code=2).output
    assert service.keys == [f"Bearer {KEY}"]


def test_an_answer_without_a_text_is_one_paragraph(
    service: ChatService, make_workflow: MakeWorkflow, devmem: Devmem
) -> None:
    service.script = [answering(None)]
    result = devmem("run", make_workflow(asking(service)), "--input", "Hello.", code=2)
    assert "answered without a text" in one_paragraph(result)


def test_how_many_were_answered_before_the_failure_is_said(
    service: ChatService, make_workflow: MakeWorkflow, devmem: Devmem
) -> None:
    path = make_workflow(asking(service))
    service.script = [echo, echo, failing(400)]
    result = devmem("run", path, "--input-file", "-", code=2, stdin="The mill.\nThe tram.\nThe boat.\nThe end.\n")
    assert "2 input(s) were answered before the one that failed" in result.stderr
    assert len(result.stdout.splitlines()) == 2
    assert "The tram." in devmem("list", path, "notes").stdout
