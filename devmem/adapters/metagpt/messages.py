"""MetaGPT's messages as devmem's, and back: nothing is imported or evaluated because a stored message names it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from metagpt import schema
from pydantic import BaseModel, JsonValue, create_model
from pydantic_core import PydanticSerializationError

from devmem.errors import MessageError
from devmem.messages import USER_REQUIREMENT, Message, Payload, PayloadData, Role, dump_payload

FORM: Final = "metagpt"
"""Metadata key of what a MetaGPT message has beside the fields of a devmem message."""
TEAM_LEADER: Final = "Mike"
"""Sender whose messages in the user's role are requirements, as a user's are."""
_TOOL_ACTIONS: Final = frozenset({"RunCommand", "RunCode", "ExecuteNbCode"})
"""Actions whose messages, in the user's role, are what a tool returned."""
_USERS: Final = frozenset({"user", "human", "boss"})
_ROLES: Final[Mapping[str, Role]] = {"system": Role.SYSTEM, "tool": Role.TOOL}
_SHARED: Final = frozenset({"id", "content", "cause_by", "sent_from", "send_to", "instruct_content", "metadata"})
"""Fields that a devmem message has too."""
_TYPES: Final[Mapping[str, Any]] = {"str": str, "int": int, "float": float, "bool": bool, "dict": dict, "list": list}
_TYPE: Final = re.compile(r"\(?(?:<class ')?(?:typing\.)?(?P<outer>\w+)'?>?(?:\[(?P<inner>\w+)\])?(?:, \w+\))?")
"""A field's type as MetaGPT writes it: `(<class 'str'>, Ellipsis)` or `(list[str], Ellipsis)`."""
_LOG: Final = logging.getLogger(__name__)


def to_devmem(message: Any) -> Message:
    """Return the devmem message of a MetaGPT message, which is left unchanged.

    Args:
        message: a `metagpt.schema.Message`, of any subclass.

    Raises:
        MessageError: it is not a message, or a value in it has no JSON form.
    """
    if not isinstance(message, schema.Message):
        raise MessageError(f"a memory of MetaGPT takes its messages, not {type(message).__name__}")
    try:
        form: dict[str, Any] = json.loads(message.model_dump_json(exclude_none=True, warnings=False))
    except PydanticSerializationError as error:
        raise MessageError(f"message {message.id!r} has no JSON form: {error}") from error
    own, made, payload = dict(form.get("metadata") or {}), type(message), form.get("instruct_content")
    kept: dict[str, JsonValue] = {"class": made.__name__, "module": made.__module__}
    kept |= {key: value for key, value in form.items() if key not in _SHARED}
    return Message(
        message.content,
        id=message.id,
        role=_role_of(message),
        source=message.sent_from,
        cause_by=message.cause_by,
        send_to=sorted(message.send_to),
        metadata={**own, FORM: kept},
        instruct_content=None
        if payload is None
        else PayloadData(
            name=str(payload.get("class", "")),
            value=payload.get("value"),
            extra={key: value for key, value in payload.items() if key not in ("class", "value")},
        ),
    )


def to_metagpt(message: Message) -> Any:
    """Return the MetaGPT message of a devmem message, of the class that it had where this program has it.

    A message that another program wrote becomes a plain one; a tool's has the role `user`, as MetaGPT's own have.
    """
    kept = message.metadata.get(FORM)
    kept = dict(kept) if isinstance(kept, Mapping) else {}
    name, module = str(kept.pop("class", "Message")), str(kept.pop("module", schema.__name__))
    values: dict[str, Any] = {
        "role": "user" if message.role is Role.TOOL else message.role.value,
        **kept,
        "id": str(message.id),
        "content": message.content,
        "cause_by": message.cause_by,
        "sent_from": message.source,
        "send_to": set(message.send_to),
        "instruct_content": _model_of(message.instruct_content),
        "metadata": {key: value for key, value in message.metadata.items() if key != FORM},
    }
    known = schema.Message.model_fields
    plain = schema.Message(**{key: value for key, value in values.items() if key in known})
    made = _class_named(name, module)
    if made is schema.Message:
        return plain
    # Not by their constructors, some of which take nothing but a text.
    more = {key: value for key, value in values.items() if key in made.model_fields and key not in known}
    return made.model_construct(**dict(plain), **more)


def _role_of(message: Any) -> Role:
    """Return who speaks: MetaGPT's agents and tools speak in the user's role too, and in roles named after them."""
    role = message.role.lower()
    if role not in _USERS:
        return _ROLES.get(role, Role.ASSISTANT)
    if message.cause_by.rpartition(".")[2] in _TOOL_ACTIONS:
        return Role.TOOL
    required = message.cause_by in ("", USER_REQUIREMENT) or message.sent_from == TEAM_LEADER
    return Role.USER if required else Role.ASSISTANT


def _model_of(payload: Payload | None) -> BaseModel | None:
    """Return a payload as a model: of its class where this program has it, else of one with the same fields."""
    if payload is None or isinstance(payload, BaseModel):
        return payload
    form = dump_payload(payload)
    value = form["value"] if isinstance(form["value"], Mapping) else {"value": form["value"]}
    mapping = form.get("mapping")
    if isinstance(mapping, Mapping):
        from metagpt.actions.action_node import ActionNode

        fields = {key: (_type_named(str(kind)), ...) for key, kind in mapping.items()}
        action: BaseModel = ActionNode.create_model_class(payload.name, fields)(**value)
        return action
    for made in _subclasses(BaseModel):
        if made.__name__ == payload.name and made.__module__ == form.get("module"):
            return made.model_validate(value)
    _LOG.warning("the class of the payload %r is not loaded: its fields are there, of any type", payload.name)
    free: Any = dict.fromkeys(value, (Any, ...))
    made = create_model(payload.name or "Payload", **free)
    return made.model_validate(value)


def _type_named(text: str) -> object:
    """Return the type that a text names, where it is one of a few; MetaGPT evaluates the text instead."""
    found = _TYPE.fullmatch(text)
    outer = _TYPES.get(found["outer"].lower()) if found else None
    if found is None or outer is None:
        return Any
    inner: Any = _TYPES.get(found["inner"] or "")
    listed: Any = list
    return listed[inner] if outer is list and inner is not None else outer


@cache
def _class_named(name: str, module: str) -> Any:
    """Return the loaded class of messages that has a name; MetaGPT's plain one where there is none."""
    for made in (schema.Message, *_subclasses(schema.Message)):
        if (made.__name__, made.__module__) == (name, module):
            return made
    _LOG.warning("messages of the class %s.%s are read as plain ones: the class is not loaded", module, name)
    return schema.Message


def _subclasses(base: type[Any]) -> Iterator[Any]:
    made: type[Any]
    for made in base.__subclasses__():
        yield made
        yield from _subclasses(made)
