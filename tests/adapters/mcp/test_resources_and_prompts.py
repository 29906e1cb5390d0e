"""Memories as resources, and the prompts."""

from __future__ import annotations

import pytest
from mcp import MCPError, types

import devmem
from devmem.adapters.mcp import ServerOptions

from .conftest import ask


def test_every_memory_is_listed_once_over_the_pages(memory: devmem.Memory) -> None:
    ids = memory.add([f"Fact {number}." for number in range(120)])
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = ask(memory, lambda client, at=cursor: client.list_resources(cursor=at))  # type: ignore[misc]
        found += [resource.name for resource in page.resources]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == ids[::-1]


def test_a_resource_is_the_whole_text_of_a_memory(memory: devmem.Memory) -> None:
    whole = "A long note. " * 200
    memory.add(whole, id="odd/id ?#")
    (resource,) = ask(memory, lambda client: client.list_resources()).resources
    (content,) = ask(memory, lambda client: client.read_resource(resource.uri)).contents
    assert content.text == whole  # type: ignore[union-attr]
    (template,) = ask(memory, lambda client: client.list_resource_templates()).resource_templates
    assert resource.uri.startswith(template.uri_template.removesuffix("{id}"))


@pytest.mark.parametrize("uri", ["memory://items/nothing", "memory://other/x", "file:///etc/passwd"])
def test_a_resource_that_is_not_there_is_an_error(memory: devmem.Memory, uri: str) -> None:
    with pytest.raises(MCPError) as caught:
        ask(memory, lambda client: client.read_resource(uri))
    assert caught.value.data == {"uri": uri}


def test_a_cursor_of_others_is_an_error(memory: devmem.Memory) -> None:
    with pytest.raises(MCPError, match="cursor"):
        ask(memory, lambda client: client.list_resources(cursor="mine"))


def test_resources_stay_within_the_scope(memory: devmem.Memory) -> None:
    bobs = memory.add("Bob's secret.", user="bob")
    assert ask(memory, lambda client: client.list_resources()).resources == []
    with pytest.raises(MCPError):
        ask(memory, lambda client: client.read_resource(f"memory://items/{bobs}"))


def test_the_prompt_about_a_topic_brings_what_is_known(memory: devmem.Memory) -> None:
    memory.add("The launch is on June 2nd.")
    prompt = ask(memory, lambda client: client.get_prompt("about", {"topic": "launch"}))
    assert "June 2nd" in str(prompt.messages[0].content)
    with pytest.raises(MCPError, match="topic"):
        ask(memory, lambda client: client.get_prompt("about", {}))


def test_a_read_only_server_has_no_prompt_that_stores(memory: devmem.Memory) -> None:
    assert [prompt.name for prompt in ask(memory, lambda client: client.list_prompts()).prompts] == ["about", "keep"]
    options = ServerOptions(read_only=True)
    assert [p.name for p in ask(memory, lambda client: client.list_prompts(), options).prompts] == ["about"]
    with pytest.raises(MCPError, match="keep"):
        ask(memory, lambda client: client.get_prompt("keep"), options)


def test_a_memory_that_fails_is_an_error_with_its_reason(memory: devmem.Memory) -> None:
    memory.close()
    with pytest.raises(MCPError, match="closed"):
        ask(memory, lambda client: client.list_resources())


def test_ids_and_labels_are_completed_within_the_scope(memory: devmem.Memory) -> None:
    memory.add("Bob's.", id="a-bobs", user="bob", metadata={"topic": "bobs"})
    memory.add("Ann's.", id="a-anns", user="ann", metadata={"topic": "tea", "Tag": 4})
    memory.add("In quarantine.", id="a-caught", user="ann", metadata={"topic": "trap"}, trust=0.0)
    handle = memory.scoped(user="ann")

    def completed(reference: object, name: str, value: str) -> list[str]:
        argument = {"name": name, "value": value}
        return ask(handle, lambda client: client.complete(reference, argument)).completion.values  # type: ignore[arg-type]

    template = types.ResourceTemplateReference(uri="memory://items/{id}")
    assert completed(template, "id", "a-") == ["a-anns"]
    assert completed(types.PromptReference(name="about"), "topic", "t") == ["topic", "tea", "Tag"]
    assert completed(types.PromptReference(name="about"), "topic", "b") == []
