"""Payloads without what only repeats recalled memory, so that it is not stored again as new."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from devmem.manager.recall_cache import RecallCache
from devmem.model.items import MemoryContentSnapshot
from devmem.model.results import MemoryWritePayload, WriteOutcome, WriteStatus
from devmem.recall import is_echo, says_nothing_new, strip_recalled
from devmem.text.frames import split_turns, strip_frames

ECHO: Final = WriteOutcome(
    status=WriteStatus.SKIPPED, reason="the answer only repeats what was recalled, and the input says nothing new"
)
"""Outcome of a payload that brings nothing new."""


def without_recalled(payload: MemoryWritePayload, recalls: RecallCache) -> tuple[MemoryWritePayload, bool]:
    """Return the payload without what only repeats memory, and whether its answer did and was taken out."""
    turns = payload.turns
    fresh = replace(
        payload,
        inputs_text=strip_recalled(payload.inputs_text),
        turns=turns and tuple(replace(turn, text=strip_recalled(turn.text)) for turn in turns),
        input_snapshot=_without_block(payload.input_snapshot),
        output_snapshot=_without_block(payload.output_snapshot),
    )
    answer = fresh.output_text()
    only_block = bool(payload.output_text().strip()) and not answer.strip()
    echo = payload.quoted or only_block or is_echo(answer, recalls.texts(turns_in(fresh.inputs_text)))
    return (replace(fresh, output_snapshot=None) if echo else fresh), echo


def says_only_known(inputs: str, recalls: RecallCache, store: str) -> bool:
    """Whether the inputs only ask, or repeat what this store recalled; another store may not have it."""
    return says_nothing_new(strip_frames(inputs), recalls.texts(turns_in(inputs), store))


def turns_in(text: str) -> list[str]:
    """Return what each sender said in a framed text, without recalled memory."""
    return split_turns(strip_recalled(text))


def _without_block(snapshot: MemoryContentSnapshot | None) -> MemoryContentSnapshot | None:
    return snapshot and replace(snapshot, text=strip_recalled(snapshot.text))
