"""LoCoMo's form: a conversation is an object whose `session_N` are lists of turns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from devmem.model.items import MemoryItem, Scope
from devmem.transfer.importing.records import Origin, text_item, text_of

_SESSION: Final = re.compile(r"session_(\d+)")


def is_locomo(raw: object) -> bool:
    """Whether an element of a document, or the document, is a conversation."""
    return isinstance(raw, Mapping) and isinstance(raw.get("conversation"), Mapping)


def count_locomo_turns(samples: list[object]) -> int:
    """Count the turns of all conversations, broken ones left out."""
    return sum(
        len(turns)
        for sample in samples
        if isinstance(sample, Mapping) and isinstance(sample.get("conversation"), Mapping)
        for name, turns in sample["conversation"].items()
        if _SESSION.fullmatch(name) and isinstance(turns, list)
    )


def read_locomo(samples: list[object], origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each turn, in the order of the conversation.

    Raises:
        DataFileError: something is not as LoCoMo has it.
    """
    for at, sample in enumerate(samples):
        here = replace(origin, entry=f"[{at}]")
        if not isinstance(sample, Mapping) or not isinstance(sample.get("conversation"), Mapping):
            raise here.error("no conversation: expected an object with `sample_id` and `conversation`")
        name = text_of(sample, "sample_id", here)
        yield from _conversation(name, sample["conversation"], here)


def _conversation(name: str, conversation: Mapping[str, Any], origin: Origin) -> Iterator[MemoryItem]:
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


def _turn(turn: object, origin: Origin, scope: Scope, event_time: float | None) -> MemoryItem:
    if not isinstance(turn, Mapping):
        raise origin.error(f"expected a turn, found {type(turn).__name__}")
    caption = turn.get("blip_caption")
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


def is_longmemeval(raw: object) -> bool:
    """Whether an element of a document, or the document, is a question with its history."""
    return isinstance(raw, Mapping) and isinstance(raw.get("haystack_sessions"), list)


def count_longmemeval_turns(questions: list[object]) -> int:
    """Count the turns that have a text, broken questions left out."""
    return sum(
        1
        for question in questions
        if isinstance(question, Mapping) and is_longmemeval(question)
        for turns in question["haystack_sessions"]
        if isinstance(turns, list)
        for turn in turns
        if not _is_blank(turn)
    )


def read_longmemeval(questions: list[object], origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each turn that has a text; the question's id is the conversation.

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


def _history(question: Mapping[str, Any], origin: Origin) -> Iterator[MemoryItem]:
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
            if not _is_blank(turn):
                yield _longmemeval_turn(turn, replace(here, entry=f"{here.entry}[{number - 1}]"), scope, number, start)


def _column(question: Mapping[str, Any], key: str, length: int, origin: Origin) -> list[object]:
    values = question.get(key)
    if not isinstance(values, list) or len(values) != length:
        raise origin.error(f"{key!r}: expected a list with one element for each of the {length} sessions")
    return values


def _is_blank(turn: object) -> bool:
    content = turn.get("content") if isinstance(turn, Mapping) else None
    return isinstance(content, str) and not content.strip()


def _longmemeval_turn(turn: object, origin: Origin, scope: Scope, number: int, start: float) -> MemoryItem:
    if not isinstance(turn, Mapping):
        raise origin.error(f"expected a turn, found {type(turn).__name__}")
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


def is_madial(raw: object) -> bool:
    """Whether an object holds memories of this form."""
    return (
        isinstance(raw, Mapping)
        and bool(raw)
        and all(isinstance(memory, Mapping) and {"event", "user-id"} <= memory.keys() for memory in raw.values())
    )


def read_madial(raw: object, origin: Origin) -> Iterator[MemoryItem]:
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


def is_units(raw: object) -> bool:
    """Whether an element of a document, or the document, has this form."""
    return isinstance(raw, Mapping) and isinstance(raw.get("units"), list)


def count_units(groups: list[object]) -> int:
    """Count the units, broken groups left out."""
    return sum(len(group["units"]) for group in groups if isinstance(group, Mapping) and is_units(group))


def read_units(groups: list[object], origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each unit, in order.

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


def _unit(unit: object, origin: Origin, conversation: str, said_at: Counter[str]) -> MemoryItem:
    if not isinstance(unit, Mapping):
        raise origin.error(f"expected a unit, found {type(unit).__name__}")
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
        metadata={"unit_id": said_as, "speaker": speaker},
    )
