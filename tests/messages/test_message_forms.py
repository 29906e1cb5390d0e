"""Messages go through JSON with their class and payload; MetaGPT's forms are read."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum

import pytest
from hypothesis import given
from pydantic import BaseModel

from devmem.errors import MessageError
from devmem.messages import (
    AIMessage,
    Message,
    PayloadData,
    Role,
    dump_message,
    dump_message_json,
    load_message,
    load_message_json,
    register_payload,
)
from tests.strategies import messages


class Verdict(StrEnum):
    GOOD = "good"
    BAD = "bad"


@register_payload("test review")
class Review(BaseModel):
    verdict: Verdict
    notes: list[str] = []


class NobodyKnows(BaseModel):
    n: int


@given(message=messages())
def test_any_message_through_its_json_form(message: Message) -> None:
    assert load_message(dump_message(message)).identical(message)
    text = dump_message_json(message)
    assert load_message_json(text).identical(message)
    assert load_message_json(text.encode()).identical(message)


def test_a_typed_payload_comes_back_as_its_model() -> None:
    message = AIMessage("good", instruct_content=Review(verdict=Verdict.GOOD, notes=["short"]))
    loaded = load_message_json(dump_message_json(message))
    assert loaded.instruct_content == Review(verdict=Verdict.GOOD, notes=["short"])
    assert loaded.identical(message)


def test_a_payload_that_is_not_registered_is_kept_as_data() -> None:
    form = dump_message(Message("x", instruct_content=NobodyKnows(n=5)))
    assert form["instruct_content"] == {"class": "NobodyKnows", "value": {"n": 5}}
    loaded = load_message(form)
    assert loaded.instruct_content == PayloadData(name="NobodyKnows", value={"n": 5})
    assert dump_message(loaded) == form


def test_nothing_is_imported_by_a_stored_name() -> None:
    """MetaGPT imports what the stored `module` and `class` name; here they are data."""
    stored = {"class": "Popen", "module": "subprocess", "value": {"args": "true"}}
    loaded = load_message({"content": "x", "instruct_content": stored})
    assert loaded.instruct_content == PayloadData(name="Popen", value={"args": "true"}, extra={"module": "subprocess"})
    assert dump_message(loaded)["instruct_content"] == stored


def test_a_payload_that_its_model_refuses_is_kept_and_said(caplog: pytest.LogCaptureFixture) -> None:
    stored = {"class": "test review", "value": {"verdict": "so so"}}
    with caplog.at_level(logging.WARNING):
        loaded = load_message({"content": "x", "instruct_content": stored}).instruct_content
    assert isinstance(loaded, PayloadData)
    assert (loaded.value, "verdict" in loaded.problem) == ({"verdict": "so so"}, True)
    assert "kept as data" in caplog.text


def test_two_models_cannot_share_a_name() -> None:
    assert register_payload("test review")(Review) is Review
    with pytest.raises(MessageError, match="another name"):
        register_payload("test review")(NobodyKnows)
    namesake = type("test review", (BaseModel,), {"__module__": "elsewhere"})
    form = dump_message(Message("", instruct_content=namesake()))
    assert form["instruct_content"]["class"] == "elsewhere.test review"


def test_metagpts_message_is_read() -> None:
    raw: dict[str, object] = {
        "id": "7",
        "content": "the design",
        "instruct_content": None,
        "role": "Architect",
        "cause_by": "metagpt.actions.design_api.WriteDesign",
        "sent_from": "",
        "send_to": ["<all>"],
        "metadata": {},
    }
    message = load_message(raw)
    assert (message.id, message.role, message.source) == ("7", Role.ASSISTANT, "Architect")
    assert message.metadata == {"role": "Architect"}
    assert load_message({**raw, "sent_from": "Bob"}).source == "Bob"
    assert load_message({**raw, "role": "human"}).role is Role.USER
    assert load_message({**raw, "id": 7}).id == "7"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("", "not JSON"),
        ('{"content": 5}', "content: "),
        ('{"type": "Letter", "content": "x"}', "'Letter' is not a class"),
        ('{"type": "AIMessage", "role": "user", "content": "x"}', "AIMessage"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_message(raw: str, words: str) -> None:
    with pytest.raises(MessageError, match=words):
        load_message_json(raw)


def test_a_class_of_ones_own_is_refused_not_lost() -> None:
    @dataclass(frozen=True, init=False, eq=False)
    class Letter(Message):
        pass

    with pytest.raises(MessageError, match="Letter"):
        dump_message(Letter("x"))


def test_metadata_without_a_json_form_are_named() -> None:
    with pytest.raises(MessageError, match="message 'm1'"):
        dump_message(Message("x", id="m1", metadata={"when": object()}))  # type: ignore[dict-item]
