"""LongMemEval's form: each question has its own history, a list of sessions whose turns have a role and a content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from devmem.model.items import MemoryItem, Scope
from devmem.transfer.importing.origin import Origin
from devmem.transfer.importing.records import text_item, text_of


def is_longmemeval(raw: object) -> bool:
    """Whether an element of a document, or the document, is a question with its history."""
    return isinstance(raw, Mapping) and isinstance(raw.get("haystack_sessions"), list)


def count_turns(questions: list[object]) -> int:
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
                yield _turn(turn, replace(here, entry=f"{here.entry}[{number - 1}]"), scope, number, start)


def _column(question: Mapping[str, Any], key: str, length: int, origin: Origin) -> list[object]:
    values = question.get(key)
    if not isinstance(values, list) or len(values) != length:
        raise origin.error(f"{key!r}: expected a list with one element for each of the {length} sessions")
    return values


def _is_blank(turn: object) -> bool:
    content = turn.get("content") if isinstance(turn, Mapping) else None
    return isinstance(content, str) and not content.strip()


def _turn(turn: object, origin: Origin, scope: Scope, number: int, start: float) -> MemoryItem:
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
