"""The message: one utterance between user, agents, tools, models and knowledge."""

from __future__ import annotations

import inspect
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Final, Never, Self, TypeVar
from uuid import uuid4

from pydantic import BaseModel, BeforeValidator, JsonValue, ValidationError
from pydantic_core import PydanticSerializationError

from devmem.errors import MessageError
from devmem.model.border import check_characters, clean_fields, clean_text, clean_values
from devmem.model.times import When, parse_time


def _refuse(*_: object, **__: object) -> Never:
    raise TypeError("a message's metadata never changes; `message.with_metadata(...)` returns a message with more")


_REFUSED: Final[Any] = _refuse


class ReadOnlyDict(dict[str, Any]):
    """A dict without the methods that change it, so that it still goes into JSON, pickles and copies."""

    __setitem__ = __delitem__ = __ior__ = _REFUSED
    clear = pop = popitem = setdefault = update = _REFUSED

    def __reduce__(self) -> tuple[type[ReadOnlyDict], tuple[dict[str, Any]]]:
        return (ReadOnlyDict, (dict(self),))


ROUTE_ALL: Final = "<all>"
"""In `send_to`: everybody."""
ROUTE_NONE: Final = "<none>"
"""In `send_to`: nobody."""
ROUTE_SELF: Final = "<self>"
"""In `send_to`: the sender."""
USER_REQUIREMENT: Final = "metagpt.actions.add_requirement.UserRequirement"
"""MetaGPT's name for a user's requirement: the cause of a user's message that names no other."""


class Role(StrEnum):
    """Role of a speaker, as chat models name it."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class MadeId(str):
    """Id of a message that was given none; one that is stored and read again has it as its own."""

    __slots__ = ()


def role_of(role: str) -> Role:
    """Return the role of a name.

    Raises:
        MessageError: there is no such role.
    """
    try:
        return Role(role)
    except ValueError:
        raise MessageError(
            f"{role!r} is not a role; roles are {', '.join(Role)}. A speaker's own name is the `source`."
        ) from None


def action_name(action: object) -> str:
    """Return the name of an action, an agent or a tool.

    A string is its own name; a class or function is named as `module.Qualified.name`, anything else by its class; None
    is the empty name.

    Raises:
        MessageError: two different things would get the same name: a lambda, or a plain value such as a number.
    """
    if action is None:
        return ""
    if isinstance(action, str):
        # For a member of a string enumeration this is its value.
        return str.__str__(action)
    while isinstance(action, partial):
        action = action.func
    named = action if isinstance(action, type) or inspect.isroutine(action) else type(action)
    module, name = getattr(named, "__module__", None), named.__qualname__
    if "<lambda>" in name or (module == "builtins" and named is not action):
        raise MessageError(f"{action!r} names no action: give a string, a class, a function or an instance of a class")
    return f"{module}.{name}" if module else name


def action_names(actions: object) -> list[str]:
    """Return the names of one action or of several; a string or a class is one, also where several are expected.

    Raises:
        MessageError: as `action_name`.
    """
    several = isinstance(actions, Iterable) and not isinstance(actions, str | type)
    return [action_name(each) for each in (actions if several else [actions])]  # type: ignore[attr-defined]


def addresses(send_to: object) -> frozenset[str]:
    """Return the names of one addressee or several; no name means everybody.

    Raises:
        MessageError: as `action_name`.
    """
    return frozenset(action_names(send_to)) - {""} or frozenset({ROUTE_ALL})


def keep_unknown(raw: object, *, known: frozenset[str], into: str) -> object:
    """Move the keys that a record does not know into its open mapping `into`; other values pass unchanged."""
    if not isinstance(raw, Mapping) or not (unknown := raw.keys() - known):
        return raw
    kept = {key: value for key, value in raw.items() if key in known}
    extra = {key: raw[key] for key in raw if key in unknown}
    return {**kept, into: {**extra, **dict(raw.get(into) or {})}}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentRef:
    """A file that belongs to a message: inline, on disk, or at a provider."""

    attachment_id: str
    mime_type: str | None = None
    name: str | None = None
    size: int | None = None
    """Bytes."""
    sha256: str | None = None
    local_path: str | None = None
    remote_file_id: str | None = None
    data_uri: str | None = None
    """`data:MIME;base64,...`; None when the bytes are in `local_path` or at the provider."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clean_fields(self, *(name for name in _ATTACHMENT_KEYS if name != "size"))


_ATTACHMENT_KEYS = frozenset(f.name for f in fields(AttachmentRef))
_KeepAttachment = BeforeValidator(partial(keep_unknown, known=_ATTACHMENT_KEYS, into="metadata"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBlock:
    """One part of a message's content."""

    type: str = "text"
    """`text`, `image`, `audio`, `video`, `file` or `data`; a host's own types are kept as they are."""
    text: str | None = None
    attachment: Annotated[AttachmentRef, _KeepAttachment] | None = None
    data: Mapping[str, JsonValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clean_fields(self, "text", "data")

    def describe(self) -> str:
        """Return the text, or a note in brackets that names the block's type."""
        if self.text is not None:
            return self.text
        if self.attachment is not None:
            return f"[{self.type} attachment: {self.attachment.name or self.attachment.attachment_id}]"
        return f"[{self.type} block]"


_BLOCK_KEYS = frozenset(f.name for f in fields(MessageBlock))
KeepBlock = BeforeValidator(partial(keep_unknown, known=_BLOCK_KEYS, into="data"))


M = TypeVar("M", bound=type[BaseModel])

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadData:
    """A payload whose model this program does not have, kept as it was stored; it is stored again unchanged."""

    name: str
    value: JsonValue
    extra: Mapping[str, JsonValue] = field(default_factory=dict)
    """Further keys that were stored with it, as MetaGPT's `module` and `mapping`."""
    problem: str = field(default="", compare=False)
    """Reason why it is not an instance of the registered model of this name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", clean_values("instruct_content", {"value": self.value})["value"])
        object.__setattr__(self, "extra", clean_values("instruct_content", self.extra))


Payload = BaseModel | PayloadData
"""Types that `Message.instruct_content` may have."""


_MODELS: Final[dict[str, type[BaseModel]]] = {}
"""The models that this program registered, by the names of their payloads."""


def register_payload(name: str = "") -> Callable[[M], M]:
    """Return a decorator that registers a model, so that stored messages are read with its instances.

    Args:
        name: of its payloads where they are stored; by default that of the class.

    Raises:
        MessageError: another model has this name.
    """

    def register(model: M) -> M:
        known_as = name or model.__name__
        owner = _MODELS.setdefault(known_as, model)
        # A module that is reloaded defines its classes again.
        if _path(owner) != _path(model):
            raise MessageError(
                f"payload {known_as!r} is {_path(owner)} already; register {_path(model)} under another name"
            )
        _MODELS[known_as] = model
        return model

    return register


def _name_of(model: type[BaseModel]) -> str:
    """Return the name under which a model's payloads are stored, registered or not."""
    registered = next((name for name, each in list(_MODELS.items()) if each is model), None)
    return registered or (_path(model) if model.__name__ in _MODELS else model.__name__)


def dump_payload(payload: Payload) -> dict[str, JsonValue]:
    """Return a payload's JSON form: `class`, `value`, and the further keys that were stored with it.

    Raises:
        MessageError: the model has no JSON form.
    """
    if isinstance(payload, PayloadData):
        return {**payload.extra, "class": payload.name, "value": payload.value}
    name = _name_of(type(payload))
    try:
        form = {"value": payload.model_dump(mode="json", by_alias=True, round_trip=True)}
        return {"class": name, **clean_values("instruct_content", form)}
    except (PydanticSerializationError, ValueError) as error:
        raise MessageError(f"the payload {name!r} cannot be written as JSON: {error}") from error


def load_payload(raw: Mapping[str, Any]) -> Payload:
    """Return the payload of a JSON form, devmem's or MetaGPT's, as an instance of the registered model or as data."""
    extra = {key: value for key, value in raw.items() if key not in {"class", "value"}}
    if not isinstance(raw.get("class"), str) or "value" not in raw:
        return PayloadData(name="", value=dict(raw))
    kept = PayloadData(name=raw["class"], value=raw["value"], extra=extra)
    model = _MODELS.get(kept.name)
    if model is None:
        return kept
    try:
        return model.model_validate(kept.value)
    except ValidationError as error:
        _LOG.warning("a payload %r is kept as data, it does not fit %s: %s", kept.name, _path(model), error)
        return PayloadData(name=kept.name, value=kept.value, extra=extra, problem=str(error))


def _path(model: type[BaseModel]) -> str:
    return f"{model.__module__}.{model.__qualname__}"


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
        created_at: When | None = None,
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
        spoken = (self.fixed_role or Role.USER) if role is None else role_of(role)
        if spoken is not (self.fixed_role or spoken):
            name = type(self).__name__
            raise MessageError(f"{name} has the role {self.fixed_role!r}, not {role!r}; see `with_role`")
        speaker = action_name(source) or action_name(sent_from)
        if sent_from is not None and speaker != action_name(sent_from):
            raise MessageError(f"`source` and `sent_from` are one thing, but {source!r} and {sent_from!r} were given")
        if not isinstance(content, str):
            raise MessageError(f"`content` is an instance of str, not of {type(content).__name__}")
        if not isinstance(instruct_content, Payload | None):
            kind = type(instruct_content).__name__
            raise MessageError(f"`instruct_content` is an instance of a pydantic model, not of {kind}")
        try:
            check_characters("id", id)
            kept = ReadOnlyDict(clean_values("metadata", metadata or {}))
        except ValueError as error:
            raise MessageError(str(error)) from error
        try:
            made_at = time.time() if created_at is None else parse_time(created_at)
        except ValueError as error:
            raise MessageError(f"`created_at`: {error}") from error
        values = (
            spoken,
            clean_text(content),
            tuple(blocks),
            clean_text(speaker),
            id or MadeId(uuid4().hex),
            made_at,
            kept,
            action_name(cause_by) or (USER_REQUIREMENT if spoken is Role.USER else ""),
            addresses(send_to),
            instruct_content,
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

    def to_dict(self) -> dict[str, Any]:
        """Return what `for_chat` does, by MetaGPT's name."""
        return self.for_chat()


_FIELDS: Final = tuple(each.name for each in fields(Message))


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
