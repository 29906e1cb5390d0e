"""The turns whose facts are pending, and counts of the extracted ones: values that the store's collection keeps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from devmem.errors import CollectionError, Finding
from devmem.model.results import damage, unfinished
from devmem.storage.protocol import StateKey
from devmem.storage.versions import StateTable

WAITING: Final = "facts.waiting"
_COUNTS: Final = "facts.counts"
_TRIES: Final = 20
"""Attempts at a compare-and-set that others keep winning."""
EXTRACTED, CALLS, FAILURES = "extracted", "calls", "failed calls"
TOKENS_IN, TOKENS_OUT = "input tokens", "output tokens"
_OWN_COUNTS: Final = frozenset({EXTRACTED, CALLS, FAILURES, TOKENS_IN, TOKENS_OUT})
_LEASE: Final = 300.0
"""Seconds for which a turn is left to the process that asks about it: longer than a chat model may take."""
_DAMAGED: Final = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTurn:
    """A turn whose facts are to be extracted."""

    id: str
    """Id of the item."""
    since: float
    """When it was announced: seconds since the epoch, as all times here."""
    tries: int
    """Number of attempts that failed."""
    taken_until: float
    """Until when another process may be asking about it; 0 where none is."""
    value: bytes
    """The stored bytes of the entry, for compare-and-set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactStatus:
    """Counts of a store's turns and facts so far."""

    waiting: int
    """Number of turns whose facts are still to be extracted."""
    extracted: int = 0
    """Number of facts that were stored, new values of known ones included."""
    calls: int = 0
    """Number of calls of the model, including failed ones and those that closing the store interrupted."""
    failures: int = 0
    """Number of calls that failed, or were answered without a text."""
    input_tokens: int = 0
    output_tokens: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Number of statements that were not kept, by reason."""
    failure: str = ""
    """Why the model did not answer last, in this process; empty where it did."""


class FactQueue:
    """Turns that wait, in the order in which they were announced. Safe to use from several threads and processes."""

    def __init__(self, values: Callable[[], StateTable]) -> None:
        """Take what opens the place of the entries."""
        self._values = values

    def announce(self, ids: Iterable[str], now: float) -> None:
        """Put turns into the queue, durable when it returns; one that is there starts again.

        Raises:
            CollectionError: they cannot be written.
        """
        body = _entry(now, 0, 0.0)
        self._values().write({(WAITING, item_id): body for item_id in ids})

    def remove(self, ids: Iterable[str]) -> None:
        """Take turns out of the queue."""
        if gone := {(WAITING, item_id): None for item_id in ids}:
            self._values().write(gone)

    def turns(self) -> list[WaitingTurn]:
        """Return the turns that wait: those that failed least often first, then the oldest."""
        found = (_turn(name, value) for name, value in self._values().scan(WAITING))
        return sorted(found, key=lambda turn: (turn.tries, turn.since, turn.id))

    def take(self, turn: WaitingTurn, now: float) -> WaitingTurn | None:
        """Take a turn for this process alone; None where another one has it, or it has changed."""
        if turn.taken_until > now:
            return None
        key, body = (WAITING, turn.id), _entry(turn.since, turn.tries, now + _LEASE)
        return _turn(turn.id, body) if self._values().write({key: body}, expected={key: turn.value}) else None

    def give_back(self, turn: WaitingTurn, counts: Mapping[str, int], *, failed: bool) -> None:
        """Leave a turn that was taken to others, or to a later attempt, and add to the counts, in one transaction."""
        self._settle(turn, _entry(turn.since, turn.tries + failed, 0.0), counts)

    def finish(self, turn: WaitingTurn, counts: Mapping[str, int]) -> None:
        """Take a turn out of the queue and add to the counts, in one transaction.

        One that was announced again meanwhile stays.
        """
        self._settle(turn, None, counts)

    def _settle(self, turn: WaitingTurn, body: bytes | None, counts: Mapping[str, int]) -> None:
        values, key = self._values(), (WAITING, turn.id)
        added = Counter({name: number for name, number in counts.items() if number})
        for _ in range(_TRIES):
            names = [(_COUNTS, name) for name in added]
            there = values.get([key, *names])
            old: dict[StateKey, bytes | None] = {name: there.get(name) for name in names}
            new: dict[StateKey, bytes | None] = {
                name: str(_number(old[name]) + added[name[1]]).encode() for name in names
            }
            own = there.get(key)
            if own == turn.value:
                new[key], old[key] = body, own
            if values.write(new, expected=old):
                return
        raise CollectionError(WAITING, f"the counts of facts were changed by others {_TRIES} times in a row")

    def status(self, failure: str = "") -> FactStatus:
        """Return the counts and the number of turns that wait."""
        counts = Counter({name: _number(value) for name, value in self._values().scan(_COUNTS)})
        return FactStatus(
            waiting=len(self.turns()),
            extracted=counts[EXTRACTED],
            calls=counts[CALLS],
            failures=counts[FAILURES],
            input_tokens=counts[TOKENS_IN],
            output_tokens=counts[TOKENS_OUT],
            dropped={name: count for name, count in sorted(counts.items()) if name not in _OWN_COUNTS and count},
            failure=failure,
        )


def _entry(since: float, tries: int, taken_until: float) -> bytes:
    return json.dumps([since, tries, taken_until]).encode()


def _turn(item_id: str, value: bytes) -> WaitingTurn:
    try:
        since, tries, until = json.loads(value)
        return WaitingTurn(id=item_id, since=float(since), tries=int(tries), taken_until=float(until), value=value)
    except (ValueError, TypeError):
        # A damaged entry still names a turn: it is asked about once more.
        return WaitingTurn(id=item_id, since=_DAMAGED, tries=0, taken_until=0.0, value=value)


def _number(value: bytes | None) -> int:
    try:
        return int(value or b"0")
    except ValueError:
        return 0


def examine_queue(states: Mapping[StateKey, bytes]) -> tuple[dict[str, int], list[Finding]]:
    """Return counts and findings of the queue among a store's values."""
    counts = {name: _number(value) for (kind, name), value in states.items() if kind == _COUNTS}
    waiting = {name: _turn(name, value) for (kind, name), value in states.items() if kind == WAITING}
    if not counts and not waiting:
        return {}, []
    facts = {"waiting turns": len(waiting), EXTRACTED: counts.pop(EXTRACTED, 0)}
    facts["dropped"] = sum(count for name, count in counts.items() if name not in _OWN_COUNTS)
    bad = [name for name, turn in waiting.items() if turn.since == _DAMAGED]
    findings = [damage(f"the entry of the turn {name!r} cannot be read") for name in bad]
    if waiting:
        findings.append(
            unfinished(
                f"facts of {len(waiting):,} turn(s) are still to be extracted; "
                "`devmem consolidate --facts waiting` extracts them"
            )
        )
    return facts, findings
