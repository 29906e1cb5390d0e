"""LoCoMo's form: a conversation is an object whose `session_N` are lists of turns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from devmem.model.items import MemoryItem, Scope
from devmem.transfer.importing.origin import Origin
from devmem.transfer.importing.records import text_item, text_of

_SESSION: Final = re.compile(r"session_(\d+)")


def is_locomo(raw: object) -> bool:
    """Whether an element of a document, or the document, is a conversation."""
    return isinstance(raw, Mapping) and isinstance(raw.get("conversation"), Mapping)


def count_turns(samples: list[object]) -> int:
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
