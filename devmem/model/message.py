"""The message: one utterance between user, agents, tools, models and knowledge."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar
from uuid import uuid4

from pydantic import JsonValue

from devmem.errors import MessageError
from devmem.model.blocks import KeepBlock, MessageBlock
from devmem.model.message_names import ROUTE_ALL, ROUTE_SELF, USER_REQUIREMENT, Role, action_name, addresses, role_of
from devmem.model.payloads import Payload, dump_payload
from devmem.model.read_only import ReadOnlyDict

T = TypeVar("T")


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Message:
    """One utterance between user, agents, tools, models and knowledge; immutable, and identified by its id.

    `dataclasses.replace` makes a changed copy, which is equal to the original, as it has its id.
    """

    fixed_role: ClassVar[Role | None] = None
    """The role that every message of this class has."""

    role: Role
    content: str
    """The text, without the blocks."""
    blocks: tuple[Annotated[MessageBlock, KeepBlock], ...]
    """Multimodal parts beside `content`."""
    source: str
    """Name of the speaker: a node id, a tool, a user; empty when it is unknown. MetaGPT calls it `sent_from`."""
    id: str
    created_at: float
    """Seconds since the epoch, UTC."""
    metadata: Mapping[str, JsonValue]
    """Read-only; `with_metadata` returns a copy with more."""
    cause_by: str
    """Name of the action that the message comes from; empty when it is unknown."""
    send_to: frozenset[str]
    """Names of the addressees, or `<all>`, `<none>`, `<self>`."""
    instruct_content: Payload | None
    """The message as data: an instance of a pydantic model, see `register_payload`."""

    def __init__(
        self,
        content: str = "",
        *,
        role: Role | str | None = None,
        blocks: Iterable[MessageBlock] = (),
        source: object = None,
        sent_from: object = None,
        id: str = "",  # noqa: A002 - the field's name
        created_at: float | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        cause_by: object = None,
        send_to: object = ROUTE_ALL,
        instruct_content: Payload | None = None,
    ) -> None:
        """Make a message; `source` (or `sent_from`), `cause_by` and `send_to` are named by `action_name`.

        Without a role it is the class's, or `user`; without a cause, what the user says is a `USER_REQUIREMENT`; an
        empty `send_to` means everybody, an empty id a new one, and no time the current one.

        Raises:
            MessageError: the role is not the class's, or an argument cannot be part of a message.
        """
        spoken = _role_in(type(self), role)
        values = (
            spoken,
            _checked(content, str, "`content` is an instance of str"),
            tuple(blocks),
            _speaker(source, sent_from),
            id or uuid4().hex,
            time.time() if created_at is None else created_at,
            ReadOnlyDict(metadata or {}),
            action_name(cause_by) or (USER_REQUIREMENT if spoken is Role.USER else ""),
            addresses(send_to),
            _checked(instruct_content, Payload | None, "`instruct_content` is an instance of a pydantic model"),
        )
        for name, value in zip(_FIELDS, values, strict=True):
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Message) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def sent_from(self) -> str:
        """MetaGPT's name for `source`."""
        return self.source

    def identical(self, other: Message) -> bool:
        """Whether the class and every field are equal; `==` compares the ids alone."""
        return type(self) is type(other) and all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    def is_user_message(self) -> bool:
        """Whether the role is the user's."""
        return self.role is Role.USER

    def is_ai_message(self) -> bool:
        """Whether the role is the model's."""
        return self.role is Role.ASSISTANT

    def is_user_requirement(self) -> bool:
        """Whether a user asks for something, as opposed to an action that speaks in the user's role."""
        return self.role is Role.USER and self.cause_by == USER_REQUIREMENT

    def reaches(self, *names: object) -> bool:
        """Whether it goes to one of the named: to everybody, by name, or back to the sender."""
        wanted = {action_name(name) for name in names}
        to_sender = ROUTE_SELF in self.send_to and self.source in wanted
        return ROUTE_ALL in self.send_to or to_sender or not wanted.isdisjoint(self.send_to)

    def with_metadata(self, **more: JsonValue) -> Self:
        """Return the message with more metadata."""
        return replace(self, metadata={**self.metadata, **more})

    def with_role(self, role: Role | str) -> Message:
        """Return the message in another role; an instance of a role's class becomes one of the other role's."""
        spoken = role_of(role)
        if spoken is self.role:
            return self
        made = CLASS_OF_ROLE[spoken] if self.fixed_role is not None else Message
        return made(**{**{name: getattr(self, name) for name in _FIELDS}, "role": spoken})

    def content_hash(self) -> str:
        """Return the SHA-256 of content, blocks, payload, role, source and cause, as 64 hex digits.

        Id, time, metadata and addressees do not count.
        """
        payload = dump_payload(self.instruct_content) if self.instruct_content is not None else None
        blocks = [(block.type, block.describe(), repr(block.attachment), repr(block.data)) for block in self.blocks]
        parts = [self.role, self.content, self.source, self.cause_by, payload, blocks]
        return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def text(self) -> str:
        """Join the content and a description of every block, a line each."""
        return "\n".join(part for part in (self.content, *(b.describe() for b in self.blocks)) if part)

    def for_chat(self) -> dict[str, Any]:
        """Return role and text in the form of an OpenAI-compatible chat API."""
        return {"role": self.role.value, "content": self.text()}


_FIELDS: Final = tuple(each.name for each in fields(Message))


def _role_in(made: type[Message], role: Role | str | None) -> Role:
    if role is None:
        return made.fixed_role or Role.USER
    spoken = role_of(role)
    if spoken is not (made.fixed_role or spoken):
        raise MessageError(f"{made.__name__} has the role {made.fixed_role!r}, not {role!r}; see `with_role`")
    return spoken


def _speaker(source: object, sent_from: object) -> str:
    speaker = action_name(source) or action_name(sent_from)
    if sent_from is not None and speaker != action_name(sent_from):
        raise MessageError(f"`source` and `sent_from` are one thing, but {source!r} and {sent_from!r} were given")
    return speaker


def _checked(value: T, kind: type | UnionType, rule: str) -> T:
    if not isinstance(value, kind):
        raise MessageError(f"{rule}, not of {type(value).__name__}")
    return value


class UserMessage(Message):
    """A message of the user."""

    __slots__ = ()
    fixed_role = Role.USER


class SystemMessage(Message):
    """Instructions to a model."""

    __slots__ = ()
    fixed_role = Role.SYSTEM


class AIMessage(Message):
    """A message of a model."""

    __slots__ = ()
    fixed_role = Role.ASSISTANT


class ToolMessage(Message):
    """Result of a tool."""

    __slots__ = ()
    fixed_role = Role.TOOL


CLASS_OF_ROLE: Final[Mapping[Role, type[Message]]] = {
    Role.USER: UserMessage,
    Role.SYSTEM: SystemMessage,
    Role.ASSISTANT: AIMessage,
    Role.TOOL: ToolMessage,
}
