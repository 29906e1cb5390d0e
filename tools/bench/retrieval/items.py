"""The items of benchmarks' data sets: LoCoMo, LongMemEval, MADial-Bench, and plain units.

`python -m tools.bench items FILE` prints them as JSON lines, which `devmem import` reads.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from devmem import DevmemError, MemoryItem, Scope
from devmem.errors import DataFileError
from devmem.model.items import dump_item
from devmem.model.record_fields import FROM, KIND, TO, WHERE, WITH
from devmem.transfer.importing.files import FileReader, parse_json
from devmem.transfer.importing.records import Position, text_item, text_of

_SESSION: Final = re.compile(r"session_(\d+)")


class DataForm(StrEnum):
    """Forms of data sets."""

    LOCOMO = "locomo"
    """LoCoMo's conversations, a list of them or one."""
    LONGMEMEVAL = "longmemeval"
    """LongMemEval's questions, each with its own history."""
    MADIAL = "madial"
    """MADial-Bench's memories, an object `{ID: {time, event, user-id}}` a line."""
    UNITS = "units"
    """A list of `{id, units: [{id, session, speaker, date, text}]}`.

    A unit may have `kind`, `with`, `where`, `from` and `to`, too; see `devmem.model.record_fields`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSetFile:
    """A file of a data set."""

    form: DataForm
    groups: Sequence[Mapping[str, Any]]
    """Its conversations, histories or groups of units as they stand there; of MADial-Bench, its lines."""
    items: Sequence[MemoryItem]
    left_out: int = 0
    """Number of its turns and units whose text is blank, which make no item."""


def read_items(path: Path) -> DataSetFile:
    """Read a file, plain or gzipped, whose form its content decides.

    Raises:
        DataFileError: it cannot be read, or is of none of the forms.
    """
    origin = Position(path=path)
    if is_memories(path):
        lines = [(parse_json(line), replace(origin, line=number)) for number, line in FileReader(path).lines()]
        items = [item for raw, here in lines for item in _read_madial(raw, here)]
        return DataSetFile(form=DataForm.MADIAL, groups=[raw for raw, _ in lines if isinstance(raw, dict)], items=items)
    document: Any = FileReader(path).document()
    groups: list[Any] = document if isinstance(document, list) else [document]
    for form, (key, kind, read) in _FORMS.items():
        if groups and isinstance(groups[0], Mapping) and isinstance(groups[0].get(key), kind):
            entries = list(read(groups, origin))
            items = [item for item in entries if item is not None]
            return DataSetFile(form=form, groups=groups, items=items, left_out=len(entries) - len(items))
    raise DataFileError(
        path,
        "not a data set; known are LoCoMo, LongMemEval, units, and MADial-Bench's dialogues with their memories",
    )


def is_memories(path: Path) -> bool:
    """Whether a file holds memories of MADial-Bench; raises `DataFileError` when it cannot be read."""
    _, first = next(FileReader(path).lines(), (0, ""))
    try:
        raw = json.loads(first)
    except (json.JSONDecodeError, RecursionError):
        return False
    return (
        isinstance(raw, Mapping)
        and bool(raw)
        and all(isinstance(memory, Mapping) and {"event", "user-id"} <= memory.keys() for memory in raw.values())
    )


def command(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="LoCoMo, LongMemEval, units or memories.")],
) -> None:
    """Print the items of a data set as JSON lines for `devmem import`."""
    try:
        for item in read_items(file).items:
            typer.echo(json.dumps(dump_item(item), ensure_ascii=False))
    except DevmemError as error:
        raise typer.BadParameter(str(error)) from error


def _read_locomo(samples: list[object], origin: Position) -> Iterator[MemoryItem | None]:
    """Yield an item for each turn, in the order of the conversation, and `None` for a blank one.

    Raises:
        DataFileError: something is not as LoCoMo has it.
    """
    for at, sample in enumerate(samples):
        here = replace(origin, entry=f"[{at}]")
        if not isinstance(sample, Mapping) or not isinstance(sample.get("conversation"), Mapping):
            raise here.error("no conversation: expected an object with `sample_id` and `conversation`")
        name = text_of(sample, "sample_id", here)
        yield from _conversation(name, sample["conversation"], here)


def _conversation(name: str, conversation: Mapping[str, Any], origin: Position) -> Iterator[MemoryItem | None]:
    numbers = sorted(int(found[1]) for key in conversation if (found := _SESSION.fullmatch(key)))
    for number in numbers:
        session = f"session_{number}"
        here = replace(origin, entry=f"{origin.entry}.conversation.{session}")
        turns = conversation[session]
        if not isinstance(turns, list):
            raise here.error(f"expected a list of turns, found {type(turns).__name__}")
        said = conversation.get(f"{session}_date_time")
        start = here.time(f"{session}_date_time", said) if said is not None else None
        scope = Scope(conversation=name, session=session)
        for at, turn in enumerate(turns):
            # A session has one time for all its turns: a second each keeps their order.
            time = None if start is None else start + at
            yield _turn(turn, replace(here, entry=f"{here.entry}[{at}]"), scope, time)


def _turn(turn: object, origin: Position, scope: Scope, event_time: float | None) -> MemoryItem | None:
    if not isinstance(turn, Mapping):
        raise origin.error(f"expected a turn, found {type(turn).__name__}")
    caption = turn.get("blip_caption")
    if not caption and _is_blank(turn.get("text")):
        return None
    image = f"[shares an image: {caption}]" if caption else ""
    said = "" if image and not turn.get("text") else text_of(turn, "text", origin)
    speaker, said_as = text_of(turn, "speaker", origin), text_of(turn, "dia_id", origin)
    return text_item(
        origin=origin,
        id=f"{scope.conversation}/{said_as}",
        text=f"{said} {image}",
        speaker=speaker,
        event_time=event_time,
        scope=scope,
        metadata={"dia_id": said_as, "speaker": speaker},
    )


def _read_longmemeval(questions: list[object], origin: Position) -> Iterator[MemoryItem | None]:
    """Yield an item for each turn, and `None` for a blank one; the question's id is the conversation.

    A turn's id is `QUESTION/SESSION/N`, N being its 1-based place in the session; its metadata repeat the parts.

    Raises:
        DataFileError: something is not as LongMemEval has it.
    """
    for at, question in enumerate(questions):
        here = replace(origin, entry=f"[{at}]")
        if not isinstance(question, Mapping) or not isinstance(question.get("haystack_sessions"), list):
            raise here.error("no history: expected an object with `question_id` and `haystack_sessions`")
        yield from _history(question, here)


def session_names(ids: Sequence[object]) -> list[str]:
    """Return a unique name for each session of a history: its id, with `#2` and so on where the id comes again."""
    seen: Counter[str] = Counter()
    names = []
    for one in map(str, ids):
        seen[one] += 1
        names.append(one if seen[one] == 1 else f"{one}#{seen[one]}")
    return names


def _history(question: Mapping[str, Any], origin: Position) -> Iterator[MemoryItem | None]:
    sessions = question["haystack_sessions"]
    name = text_of(question, "question_id", origin)
    names = session_names(_column(question, "haystack_session_ids", len(sessions), origin))
    dates = _column(question, "haystack_dates", len(sessions), origin)
    for at, turns in enumerate(sessions):
        here = replace(origin, entry=f"{origin.entry}.haystack_sessions[{at}]")
        if not isinstance(turns, list):
            raise here.error(f"expected a list of turns, found {type(turns).__name__}")
        start = here.time("haystack_dates", dates[at])
        scope = Scope(conversation=name, session=names[at])
        for number, turn in enumerate(turns, start=1):
            yield _longmemeval_turn(turn, replace(here, entry=f"{here.entry}[{number - 1}]"), scope, number, start)


def _column(question: Mapping[str, Any], key: str, length: int, origin: Position) -> list[object]:
    values = question.get(key)
    if not isinstance(values, list) or len(values) != length:
        raise origin.error(f"{key!r}: expected a list with one element for each of the {length} sessions")
    return values


def _is_blank(text: object) -> bool:
    return isinstance(text, str) and not text.strip()


def _longmemeval_turn(turn: object, origin: Position, scope: Scope, number: int, start: float) -> MemoryItem | None:
    if not isinstance(turn, Mapping):
        raise origin.error(f"expected a turn, found {type(turn).__name__}")
    if _is_blank(turn.get("content")):
        return None
    speaker = text_of(turn, "role", origin)
    return text_item(
        origin=origin,
        id=f"{scope.conversation}/{scope.session}/{number}",
        text=text_of(turn, "content", origin),
        speaker=speaker,
        # A session has one time for all its turns: a second each keeps their order.
        event_time=start + number - 1,
        scope=scope,
        metadata={"turn": number, "speaker": speaker},
    )


_USUAL: Final = frozenset({"time", "event", "user-id", "id"})


def _read_madial(raw: object, origin: Position) -> Iterator[MemoryItem]:
    """Yield an item for each memory of an object: its event, bound to its user; scene and emotion are metadata.

    A memory's id is `madial/ID`.

    Raises:
        DataFileError: something has not this form.
    """
    if not isinstance(raw, Mapping):
        raise origin.error(f"expected an object of memories by their id, found {type(raw).__name__}")
    for name, memory in raw.items():
        here = replace(origin, entry=f"[{name!r}]")
        if not isinstance(memory, Mapping):
            raise here.error(f"expected a memory, found {type(memory).__name__}")
        yield text_item(
            origin=here,
            id=f"madial/{name}",
            text=text_of(memory, "event", here),
            event_time=here.time("time", memory["time"]) if memory.get("time") is not None else None,
            scope=Scope(user=text_of(memory, "user-id", here)),
            metadata={str(key): value for key, value in memory.items() if key not in _USUAL},
        )


def _read_units(groups: list[object], origin: Position) -> Iterator[MemoryItem | None]:
    """Yield an item for each unit, in order, and `None` for a blank one.

    Raises:
        DataFileError: something has not this form.
    """
    for at, group in enumerate(groups):
        here = replace(origin, entry=f"[{at}]")
        if not isinstance(group, Mapping) or not isinstance(group.get("units"), list):
            raise here.error("expected an object with `id` and `units`")
        name = text_of(group, "id", here)
        said_at: Counter[str] = Counter()
        for number, unit in enumerate(group["units"]):
            yield _unit(unit, replace(here, entry=f"[{at}].units[{number}]"), name, said_at)


def _unit(unit: object, origin: Position, conversation: str, said_at: Counter[str]) -> MemoryItem | None:
    if not isinstance(unit, Mapping):
        raise origin.error(f"expected a unit, found {type(unit).__name__}")
    if _is_blank(unit.get("text")):
        return None
    time = None
    if unit.get("date") is not None:
        # Many units have one date: a second each keeps their order.
        date = str(unit["date"])
        time = origin.time("date", unit["date"]) + said_at[date]
        said_at[date] += 1
    session = text_of(unit, "session", origin) if unit.get("session") is not None else None
    speaker, said_as = text_of(unit, "speaker", origin, default=""), text_of(unit, "id", origin)
    return text_item(
        origin=origin,
        id=f"{conversation}/{said_as}",
        text=text_of(unit, "text", origin),
        speaker=speaker,
        event_time=time,
        scope=Scope(conversation=conversation, session=session),
        metadata={"unit_id": said_as, "speaker": speaker, **_record_fields(unit, said_as, speaker)},
    )


_PHONE_KINDS: Final[Mapping[str, str]] = {
    "sms": "message",
    "call": "call",
    "calendar": "event",
    "note": "note",
    "photo": "photo",
    "push": "notification",
    "agent_chat": "chat",
}
"""Tables of LifeBench's phone, by which its units are numbered, and their kinds of records."""
_CALL: Final = re.compile(r"call (?:to|from) (?P<with>.+?) \([^()]*\) \d{4}-")
_SPAN: Final = re.compile(r"(?P<from>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) - (?P<to>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)$")


def _record_fields(unit: Mapping[str, Any], named: str, speaker: str) -> dict[str, Any]:
    """Return the metadata of a record: those that the unit has, or of LifeBench those that the phone's tables have.

    LifeBench's units have the columns of a table in one text. Only those columns are read out of it that a phone
    exports as such: the table, the contact of a message or a call, and start and end of a call or an appointment.
    """
    given = {key: unit[key] for key in (KIND, WITH, WHERE, FROM, TO) if unit.get(key)}
    table, _, number = named.partition(":")
    if given or not number.isdecimal() or table not in _PHONE_KINDS:
        return given
    text, kind = str(unit.get("text", "")), _PHONE_KINDS[table]
    contact = speaker if kind == "message" else found["with"] if (found := _CALL.match(text)) else ""
    span = _SPAN.search(text) if kind in ("call", "event") else None
    return {KIND: kind, **({WITH: [contact]} if contact else {}), **(span.groupdict() if span else {})}


_FORMS: Final[Mapping[DataForm, tuple[str, type, Callable[[list[Any], Position], Iterator[MemoryItem | None]]]]] = {
    DataForm.LOCOMO: ("conversation", Mapping, _read_locomo),
    DataForm.LONGMEMEVAL: ("haystack_sessions", list, _read_longmemeval),
    DataForm.UNITS: ("units", list, _read_units),
}
"""Forms of documents: the key of a group that tells the form, the type of its value, and the reader."""
