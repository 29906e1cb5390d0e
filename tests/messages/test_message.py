"""Message: what a message is: known by its id, unchangeable, named and routed without surprises."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from functools import partial
from typing import Any

import pytest

from devmem.errors import MessageError
from devmem.messages import (
    ROUTE_ALL,
    ROUTE_NONE,
    ROUTE_SELF,
    AIMessage,
    AttachmentRef,
    Message,
    MessageBlock,
    PayloadData,
    Role,
    SystemMessage,
    ToolMessage,
    UserMessage,
    action_name,
)


class WriteCode:
    def run(self) -> None:
        """Does nothing."""

    class Inner:
        """A class within a class."""


@pytest.mark.parametrize(
    ("made", "role"),
    [
        (UserMessage, Role.USER),
        (SystemMessage, Role.SYSTEM),
        (AIMessage, Role.ASSISTANT),
        (ToolMessage, Role.TOOL),
    ],
)
def test_a_class_has_one_role(made: type[Message], role: Role) -> None:
    assert made("x").role is role
    assert made("x", role=role.value).role is role
    other = Role.USER if role is not Role.USER else Role.TOOL
    with pytest.raises(MessageError, match=made.__name__):
        made("x", role=other)
    assert made("x").is_user_message() is (role is Role.USER)
    assert made("x").is_ai_message() is (role is Role.ASSISTANT)


def test_messages_are_equal_and_hashed_by_id() -> None:
    """M6: neither the class nor the metadata make the same message another one; a set of messages works."""
    one = AIMessage("x", id="1")
    same = Message("y", id="1", metadata={"seen": True})
    assert one == same
    assert {one, same, Message("x", id="2")} == {one, Message("", id="2")}
    assert one != "1"
    assert not one.identical(same)
    assert one.identical(replace(one))


def test_a_message_never_changes() -> None:
    """M4, M8: what is stored under an action or an id stays there; metadata cannot grow behind the memory's back."""
    given: dict[str, object] = {"n": 1}
    message = Message("x", metadata=given)  # type: ignore[arg-type]
    with pytest.raises(FrozenInstanceError):
        message.cause_by = "other"  # type: ignore[misc]
    metadata: Any = message.metadata
    for change, arguments in (("update", ({"n": 2},)), ("__setitem__", ("n", 2)), ("pop", ("n",)), ("clear", ())):
        with pytest.raises(TypeError, match="with_metadata"):
            getattr(metadata, change)(*arguments)
    given["images"] = ["data:"]
    more = message.with_metadata(images=["data:"])
    assert (dict(message.metadata), dict(more.metadata)) == ({"n": 1}, {"n": 1, "images": ["data:"]})
    assert more == message


def test_another_role() -> None:
    """A class of a role becomes that of the other role; a plain message stays plain."""
    answer = AIMessage("x", source="writer", cause_by=WriteCode)
    asked = answer.with_role("user")
    assert type(asked) is UserMessage
    assert (asked.id, asked.source, asked.cause_by) == (answer.id, "writer", action_name(WriteCode))
    assert type(Message("x", role="assistant").with_role(Role.USER)) is Message
    assert answer.with_role(Role.ASSISTANT) is answer


def test_source_and_sent_from_are_one_thing() -> None:
    assert Message("x", sent_from="ann").source == Message("x", source="ann").sent_from == "ann"
    assert Message("x", source="ann", sent_from="ann").source == "ann"
    with pytest.raises(MessageError, match="one thing"):
        Message("x", source="ann", sent_from="bob")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"role": "user1"}, "`source`"),
        ({"content": None}, "NoneType"),
        ({"instruct_content": {"a": 1}}, "pydantic model"),
        ({"cause_by": 5}, "5 names no action"),
    ],
)
def test_what_cannot_be_a_message(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(MessageError, match=words):
        Message(**arguments)  # type: ignore[arg-type]


HERE = __name__


@pytest.mark.parametrize(
    ("action", "name"),
    [
        ("write", "write"),
        (Role.USER, "user"),
        (WriteCode, f"{HERE}.WriteCode"),
        (WriteCode(), f"{HERE}.WriteCode"),
        (WriteCode.run, f"{HERE}.WriteCode.run"),
        (partial(WriteCode().run), f"{HERE}.WriteCode.run"),
    ],
)
def test_the_name_of_an_action(action: object, name: str) -> None:
    assert action_name(action) == Message("x", role="assistant", cause_by=action).cause_by == name


def test_routes() -> None:
    """The rows of MetaGPT's `test_routes`, and what they leave open."""
    assert Message("x").reaches("anybody")
    assert Message("x", send_to=[]).send_to == {ROUTE_ALL}
    assert Message("x", send_to="b").send_to == {"b"}
    to_two = Message("x", send_to={"b", WriteCode})
    assert to_two.send_to == {"b", f"{HERE}.WriteCode"}
    assert to_two.reaches("a", "b")
    assert to_two.reaches(WriteCode())
    assert not to_two.reaches("c")
    assert not Message("x", send_to=ROUTE_NONE).reaches("a")
    back = Message("x", source="a", send_to=ROUTE_SELF)
    assert back.reaches("a")
    assert not back.reaches("b")


def test_the_content_hash_is_of_what_was_said() -> None:
    base = Message("x", source="ann", cause_by="write")
    for same in (replace(base, id="other"), replace(base, created_at=1.0), base.with_metadata(a=1)):
        assert same.content_hash() == base.content_hash()
    image = MessageBlock(type="image", attachment=AttachmentRef(attachment_id="a"))
    others = [
        replace(base, content="y"),
        replace(base, source="bob"),
        replace(base, cause_by="read"),
        replace(base, role=Role.ASSISTANT),
        replace(base, blocks=(image,)),
        replace(base, instruct_content=PayloadData(name="n", value=1)),
    ]
    assert len({each.content_hash() for each in [base, *others]}) == len(others) + 1
