"""Summaries of an agent's view of a conversation, as records: each new one continues the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from pydantic import JsonValue

from devmem.llm import Summarizer, TextModel
from devmem.recording import Interaction, InteractionKind, Participant, ParticipantType
from devmem.stores import StoreSetup
from devmem_stores.conversation.config import ConversationConfig
from devmem_stores.conversation.sentences import sentence

UNTIL: Final = "until"
"""Key of a summary's extras: event time and sequence of the last record that it stands for."""
COUNT: Final = "records"
"""Key of a summary's extras: number of the records that it stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarized:
    """A summary, and the number of records that it adds to the one before."""

    record: Interaction
    added: int
    sources: tuple[str, ...]
    """Ids of the records, and of the summary before, that it is made of."""


def stands_for(summary: Interaction, record: Interaction) -> bool:
    """Whether a summary covers a record of its conversation."""
    return (record.event_time, record.sequence) <= covered_until(summary)


def covered_until(summary: Interaction | None) -> tuple[float, int]:
    """Return event time and sequence of the last record that a summary stands for."""
    until = summary.extras.get(UNTIL) if summary is not None else None
    if not isinstance(until, list) or len(until) != 2:
        return (float("-inf"), 0)
    time, sequence = until
    return (float(str(time)), int(str(sequence)))


def open_summarizer(config: ConversationConfig, setup: StoreSetup) -> Summarizer:
    """Return the summarizer of a store; without a language model it selects sentences."""
    llm = config.summary.llm
    asks = llm is not None and llm.provider != "extractive"
    model = TextModel(lambda: setup.open_chat(llm), llm.params) if llm is not None and asks else None
    return Summarizer(model, language=config.language, instruction=config.summary.prompt or "")


def summarize(
    records: Sequence[Interaction],
    before: Interaction | None,
    *,
    agent: str | None,
    config: ConversationConfig,
    summarizer: Summarizer,
) -> Summarized | None:
    """Return the summary that continues the one before; None where too few records are new.

    Args:
        records: the records of a view of one conversation, in order.
        before: the last summary of that view.
        agent: name of the agent whose view it is; None is everybody's.
        config: the store's configuration: the latest records stay as they are.
        summarizer: makes the text.

    Raises:
        ChatModelError: the language model gave no answer.
    """
    options = config.summary
    new = [one for one in records if before is None or not stands_for(before, one)]
    older = new[: max(len(new) - options.keep, 0)]
    if not older:
        return None
    said = [sentence(one, me=agent, language=config.language) for one in older]
    text = "\n".join([*([before.content] if before is not None else []), *said])
    made = summarizer.summarize(text, max_words=options.words)
    told = before.extras.get(COUNT) if before is not None else 0
    about: dict[str, JsonValue] = {
        UNTIL: [older[-1].event_time, older[-1].sequence],
        COUNT: len(older) + (told if isinstance(told, int) else 0),
        "method": made.method,
    }
    sources = tuple(one.id for one in ([before] if before is not None else []) + older)
    return Summarized(record=_record(made.text, agent, older[-1], about), added=len(older), sources=sources)


def _record(text: str, agent: str | None, last: Interaction, about: Mapping[str, JsonValue]) -> Interaction:
    """Return the record of a summary, which stands where the last of the records is that it tells of."""
    who = Participant(agent or "", ParticipantType.AGENT if agent else ParticipantType.UNKNOWN)
    return Interaction(
        id=_summary_id(last, who.name),
        conversation=last.conversation,
        trace="",
        source=who,
        target=who,
        kind=InteractionKind.SUMMARY,
        content=text,
        event_time=last.event_time,
        sequence=last.sequence,
        extras=about,
        language=last.language,
        user=last.user,
    )


def _summary_id(last: Interaction, agent: str) -> str:
    """Return the same id for the same records, so that two processes store one summary."""
    named = "\0".join((last.conversation, last.user or "", agent, last.id))
    return f"summary-{blake2b(named.encode('utf-8', 'surrogatepass'), digest_size=12).hexdigest()}"
