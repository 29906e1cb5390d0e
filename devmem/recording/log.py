"""Stores whose records can be read by conversation and by trace, and that take records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, Protocol, runtime_checkable

from devmem.errors import Finding
from devmem.model.caller import Caller
from devmem.model.interactions import Interaction, Participant, ParticipantType
from devmem.model.items import MemoryItem
from devmem.model.results import FileReport, damage, unfinished
from devmem.recording.calls import Entered, Frame, current_trace
from devmem.recording.forwarder import REFUSED, JournalState, Sink, waiting_records
from devmem.recording.journal import decode_line, read_position
from devmem.search.query import Filter


@runtime_checkable
class InteractionLog(Protocol):
    """An ability of a store type, asked for with `isinstance`."""

    def log(self, conversation: str) -> list[Interaction]:
        """Return all records of a conversation as they happened."""
        ...

    def trace(self, trace: str) -> list[Interaction]:
        """Return all records of a trace as they happened."""
        ...


@runtime_checkable
class PromptContext(Protocol):
    """A store that words its latest interactions for a prompt."""

    def context(
        self,
        *,
        agent: str | None = None,
        where: Filter | None = None,
        max_tokens: int = 2000,
        language: Literal["en", "zh"] | None = None,
    ) -> str:
        """Return the latest interactions as sentences, oldest first, within `max_tokens` estimated tokens.

        Args:
            agent: name of the agent that reads it, which is addressed as "you"; None reads what everybody said.
            where: further restricts it.
            max_tokens: the newest stay within it.
            language: of the sentences; None takes the store's.
        """
        ...


@runtime_checkable
class TokenTrimming(Protocol):
    """A store that can be trimmed to a number of tokens."""

    def trim_to_tokens(self, max_tokens: int, where: Filter | None = None) -> int:
        """Delete the oldest items until the others have at most `max_tokens` estimated tokens; return their number."""
        ...


@runtime_checkable
class CopySource(Protocol):
    """A log whose records can be copied into other stores."""

    def every_record(self) -> Iterator[Interaction]:
        """Return all records, a few at a time."""
        ...

    def copies_of(self, records: Sequence[Interaction]) -> list[MemoryItem]:
        """Return the items that keep records in another store: the same each time, under the records' ids."""
        ...


@runtime_checkable
class InteractionStore(InteractionLog, Sink, Protocol):
    """A log that a recorder may write to; an ability of a store type too."""


INPUT_SUFFIX: Final = "-input"
"""End of the id of a call's input record, after the id of the call."""


@contextmanager
def asked_by(sender: Participant | None) -> Iterator[None]:
    """Make a participant the one who asks in a block, as where an agent hands its answer on to the next one.

    Calls in the block do not count as made within the sender's call. None changes nothing, as does a block outside
    of a trace.
    """
    current = current_trace()
    asking = None if current is None or sender is None else current.within(Frame(callee=sender, record_id=None))
    with Entered(asking):
        yield


def caller_in_trace() -> Caller:
    """Return the agent whose recorded call is in progress, with the conversation, the trace and the call's id.

    The parts that nothing in progress names are open.
    """
    current = current_trace()
    if current is None:
        return Caller()
    agents = (frame for frame in reversed(current.frames) if frame.callee.type is ParticipantType.AGENT)
    frame = next((one for one in agents if one.record_id is not None), None)
    named = Caller(conversation=current.conversation, trace=current.trace)
    if frame is None or frame.record_id is None:
        return named
    return replace(named, agent=frame.callee.name, call=frame.record_id.removesuffix(INPUT_SUFFIX))


def examine_journals(folder: Path) -> FileReport:
    """Examine the journals in a folder; nothing is sent or deleted."""
    try:
        found = waiting_records(folder)
        pending, findings = 0, list[Finding]()
        for journal in found.journals:
            records, damaged = _lines(journal)
            pending += records
            if damaged:
                findings.append(damage(f"{damaged:,} damaged lines in {journal.path.name}"))
    except OSError as error:
        problem = damage(f"it cannot be read: {error.strerror or error}")
        return FileReport(path=str(folder), kind="journals", findings=[problem])
    if found.refused:
        findings.append(damage(f"{found.refused:,} records were refused by the store; {REFUSED} has them"))
    if pending:
        findings.append(unfinished(f"{pending:,} records wait for the store; the next recorder sends them"))
    facts = {"journals": len(found.journals), "waiting": pending, "refused": found.refused}
    return FileReport(path=str(folder), kind="journals", facts=facts, findings=findings)


def _lines(journal: JournalState) -> tuple[int, int]:
    """Return the numbers of records that wait and of damaged lines among them."""
    with journal.path.open("rb") as file:
        file.seek(read_position(journal.path))
        # A last line without a line feed was never acknowledged.
        whole = [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
    damaged = sum(1 for line in whole if decode_line(line[:-1]) is None)
    return len(whole) - damaged, damaged
