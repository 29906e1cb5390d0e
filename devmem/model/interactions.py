"""One interaction between users, agents, tools, language models and knowledge, as the global memory records it.

The fields are those of agentUniverse's global memory, with two differences: an answer has the answerer as its source
and the asker as its target, and `parent_id` names the call from within which a call was made, so that the calls of a
trace form a tree even where they are nested or parallel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter

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

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(coerce_numbers_to_str=True)

    id: str
    conversation: Annotated[str, Field(alias="conversation_id")]
    trace: Annotated[str, Field(alias="trace_id")]
    source: Participant
    target: Participant
    kind: Annotated[InteractionKind, Field(alias="type")]
    content: str
    event_time: Annotated[float, Field(alias="timestamp")]
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
    user: Annotated[str | None, Field(alias="user_id")] = None
    """Id of the user whom the trace belongs to; None where it is unscoped."""

    def __post_init__(self) -> None:
        clean_fields(self, "content", "params", "extras")

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the time is ISO 8601 in UTC."""
        form: dict[str, Any] = _adapter().dump_python(self, mode="json", by_alias=True)
        for side in _SIDES:
            form[f"{side}_type"], form[side] = form[side]["type"], form[side]["name"]
        form["timestamp"] = datetime.fromtimestamp(self.event_time, UTC).isoformat(timespec="microseconds")
        return form

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Interaction:
        """Read the JSON form.

        Raises:
            KeyError: a key is missing.
            ValueError: a value is not of its kind.
        """
        form = {key: value for key, value in raw.items() if value is not None}
        for side in _SIDES:
            form[side] = {"name": str(form[side]), "type": form[f"{side}_type"]}
        form["timestamp"] = datetime.fromisoformat(str(form["timestamp"])).timestamp()
        return _adapter().validate_python(form)

    def dump(self) -> str:
        """Return the record as a text that `load` reads, faster than its JSON form.

        Raises:
            TypeError: a value has no JSON form.
            ValueError: a value cannot be written.
        """
        return _adapter().dump_json(self, by_alias=True).decode()

    @classmethod
    def load(cls, text: str) -> Interaction:
        """Return the record of a text that `dump` wrote; raise `ValueError` for any other."""
        return _adapter().validate_json(text)


_SIDES: Final = ("source", "target")


@cache
def _adapter() -> TypeAdapter[Interaction]:
    # Built at its first use: that takes longer than the rest of the import.
    return TypeAdapter(Interaction)


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
        if snapshot is None or stored == shown:
            continue
        if item.content_summary.startswith(stored):
            text = text.replace(stored, shown, 1)
        elif f"\n{stored}" in item.content_summary:
            text = text.replace(f"\n{stored}", f"\n{shown}", 1)
    return text
