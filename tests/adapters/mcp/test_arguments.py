"""Arguments as clients send them: lists and objects as strings, null for what is left out, short ids."""

from __future__ import annotations

import json

import pytest

import devmem

from .conftest import Tools


def texts_of(memory: devmem.Memory) -> set[str]:
    return {record.text for record in memory.list(100)}


def test_a_list_in_a_string_is_several_texts(tools: Tools, memory: devmem.Memory) -> None:
    tools("remember", text='["a tent", "two mats"]')
    assert texts_of(memory) == {"a tent", "two mats"}


@pytest.mark.parametrize("text", ['{"a": 1}', "[1, 2]", "[]", "[not JSON]", '"quoted"', "null"])
def test_other_texts_stay_as_they_are(tools: Tools, memory: devmem.Memory, text: str) -> None:
    tools("remember", text=text)
    assert texts_of(memory) == {text}


def test_objects_in_strings_and_null_are_meant(tools: Tools, memory: devmem.Memory) -> None:
    item_id = tools("remember", text="A tent.", metadata='{"topic": "camp"}', time=None, key=None)["id"]
    assert memory.get(item_id).metadata == {"topic": "camp"}
    tools("remember", text="A mast.", metadata=None)
    for asked in ({"metadata": '{"topic": "camp"}'}, {"where": '{"metadata.topic": "camp"}'}):
        found = tools("recall", query="tent mast", after=None, before="", limit="5", **asked)
        assert [one["text"] for one in found["memories"]] == ["A tent."]
    assert tools("list", limit=None, offset="0", metadata=None, where=None, archived=None)["total"] == 2


def test_null_changes_nothing(tools: Tools, memory: devmem.Memory) -> None:
    item_id = tools("remember", text="A tent.", time="2026-05-01", metadata={"topic": "camp"})["id"]
    before = memory.get(item_id)
    tools("update", id=item_id, text="Two tents.", time=None, expires_at=None, metadata=None, if_version=None)
    after = memory.get(item_id)
    assert before is not None
    assert after is not None
    assert (after.text, after.time, after.metadata) == ("Two tents.", before.time, {"topic": "camp"})


def test_the_beginning_of_an_id_names_a_memory(tools: Tools, memory: devmem.Memory) -> None:
    item_id = tools("remember", text="A tent.")["id"]
    tools("update", id=item_id[:8], text="Two tents.")
    assert len(tools("history", id=item_id[:8] + "...")["versions"]) == 2
    tools("undo", id=item_id[:8])
    assert texts_of(memory) == {"A tent."}
    assert tools("forget", ids=item_id[:8])["forgotten"] == 1
    assert texts_of(memory) == set()


@pytest.mark.parametrize("wrapped", [lambda one: one, lambda one: json.dumps([one]), lambda one: [one[:10]]])
def test_one_id_is_forgotten(tools: Tools, memory: devmem.Memory, wrapped: object) -> None:
    assert callable(wrapped)
    tools("remember", text="A mast.")
    item_id = tools("remember", text="A tent.")["id"]
    tools("forget", ids=wrapped(item_id))
    assert texts_of(memory) == {"A mast."}
