"""One interaction between users, agents, tools, language models and knowledge, as the global memory records it.

The fields are those of agentUniverse's global memory, with two differences: an answer has the answerer as its source
and the asker as its target, and `parent_id` names the call from within which a call was made, so that the calls of a
trace form a tree even where they are nested or parallel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Literal, Self, TypeAlias

from pydantic import JsonValue

from devmem.model.border import clean_fields
from devmem.model.results import Hit


class ParticipantType(StrEnum):
    """Kinds of participants."""

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    LLM = "llm"
    KNOWLEDGE = "knowledge"
    UNKNOWN = "unknown"


class InteractionKind(StrEnum):
    """Kinds of records."""

    INPUT = "input"
    """A question or a call, from the caller to the callee."""
    OUTPUT = "output"
    """The answer, from the callee to the caller."""
    ERROR = "error"
    """The exception that a call ended with, from the callee to the caller."""
    SUMMARY = "summary"
    """Stands for older records, which its provenance names."""


@dataclass(frozen=True, slots=True)
class Participant:
    """Who takes part in an interaction."""

    name: str
    type: ParticipantType = ParticipantType.UNKNOWN

    def __post_init__(self) -> None:
        # A name of another type is refused by what records it.
        if isinstance(self.name, str):
            clean_fields(self, "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """One record."""

    id: str
    conversation: str
    trace: str
    source: Participant
    target: Participant
    kind: InteractionKind
    content: str
    event_time: float
    """When it happened: seconds since the epoch, UTC."""
    sequence: int = 0
    """Position among the records of its process, for records of the same time."""
    pair_id: str = ""
    """The same for a call and its answer."""
    parent_id: str | None = None
    """`id` of the input record of the call that this one was made from; None at the root of a trace."""
    params: Mapping[str, JsonValue] = field(default_factory=dict)
    """Arguments of the call, as far as they have a JSON form."""
    extras: Mapping[str, JsonValue] = field(default_factory=dict)
    language: str = "en"
    user: str | None = None
    """Id of the user whom the trace belongs to; None where it is unscoped."""

    def __post_init__(self) -> None:
        clean_fields(self, "content", "params", "extras")

    def to_row(self) -> list[JsonValue]:
        """Return the fields as a list in the order of the JSON form's keys; the time is in seconds since the epoch."""
        return [
            self.id,
            self.conversation,
            self.trace,
            self.source.name,
            _VALUES[self.source.type],
            self.target.name,
            _VALUES[self.target.type],
            _VALUES[self.kind],
            self.content,
            self.event_time,
            self.sequence,
            self.pair_id,
            self.parent_id,
            self.params if type(self.params) is dict else dict(self.params),
            self.extras if type(self.extras) is dict else dict(self.extras),
            self.language,
            self.user,
        ]

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Self:
        """Read what `to_row` returned.

        Raises:
            ValueError: it is not such a list.
        """
        item_id, conversation, trace, source, source_type, target, target_type, kind, *rest = row
        source = Participant(source, ParticipantType(source_type))
        target = Participant(target, ParticipantType(target_type))
        values = (item_id, conversation, trace, source, target, InteractionKind(kind), *rest)
        given: dict[str, Any] = dict(zip(_FIELDS, values, strict=True))
        return cls(**given)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the time is ISO 8601 in UTC."""
        form: dict[str, Any] = dict(zip(_JSON_KEYS, self.to_row(), strict=True))
        form[_TIME_KEY] = datetime.fromtimestamp(self.event_time, UTC).isoformat(timespec="microseconds")
        return form

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Read the JSON form.

        Raises:
            KeyError: a key is missing.
            ValueError: a value is not of its kind.
        """
        form = {**_JSON_DEFAULTS, **raw}
        form[_TIME_KEY] = datetime.fromisoformat(str(form[_TIME_KEY])).timestamp()
        form |= {key: str(form[key]) for key in _JSON_TEXTS}
        form["sequence"] = int(form["sequence"])
        form |= {key: dict(form[key] or {}) for key in ("params", "extras")}
        return cls.from_row([form[key] for key in _JSON_KEYS])


_VALUES: Final[Mapping[str, str]] = {one: one.value for kinds in (ParticipantType, InteractionKind) for one in kinds}
"""Values of the enumerations as plain strings, which are serialized ten times as fast as their members."""
_FIELDS: Final = tuple(part.name for part in fields(Interaction))
_JSON_KEYS: Final = tuple(
    "id conversation_id trace_id source source_type target target_type type content timestamp sequence pair_id "
    "parent_id params extras language user_id".split()
)
"""Keys of the JSON form, in the order of `Interaction.to_row`."""
_TIME_KEY: Final = "timestamp"
_JSON_TEXTS: Final = ("id", "conversation_id", "trace_id", "source", "target", "content", "pair_id", "language")
_JSON_DEFAULTS: Final[Mapping[str, Any]] = {
    "sequence": 0,
    "pair_id": "",
    "parent_id": None,
    "params": {},
    "extras": {},
    "language": "en",
    "user_id": None,
}


def in_order(records: Iterable[Interaction]) -> list[Interaction]:
    """Return records as they happened: by event time, and by sequence where that is the same."""
    return sorted(records, key=lambda record: (record.event_time, record.sequence))


Language: TypeAlias = Literal["en", "zh"]
"""Languages of what devmem itself says in a prompt."""

SIDES: Final = ("Input: ", "Output: ")
"""Labels of what was said and what was answered in a stored summary."""
_SHOWN: Final[dict[Language, tuple[str, str]]] = {"en": SIDES, "zh": ("输入: ", "输出: ")}
NAMES: Final = frozenset(label.rstrip(": ").casefold() for labels in _SHOWN.values() for label in labels)
"""The labels without their colon, in every language, in lower case."""


def labelled_text(hit: Hit, language: Language) -> str:
    """Return the text of a hit with the labels of the sides that its item has in another language.

    Only labels at the left edge of a summary are a store's own: lines of what was said are indented there.
    """
    text, item = hit.snippet, hit.item
    for side, snapshot in enumerate((item.input_snapshot, item.output_snapshot)):
        stored, shown = SIDES[side], _SHOWN[language][side]
        if snapshot is not None and stored != shown:
            text = _with_label(text, item.content_summary, stored, shown)
    return text


def _with_label(text: str, summary: str, stored: str, shown: str) -> str:
    if summary.startswith(stored):
        return text.replace(stored, shown, 1)
    return text.replace(f"\n{stored}", f"\n{shown}", 1) if f"\n{stored}" in summary else text
