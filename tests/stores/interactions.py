"""Records of what somebody said to an agent."""

from __future__ import annotations

from devmem.recording import Interaction, InteractionKind, Participant, ParticipantType

ANN = Participant("ann", ParticipantType.USER)
BOT = Participant("bot", ParticipantType.AGENT)


def record(number: int, conversation: str = "c", trace: str = "t", **more: object) -> Interaction:
    """Return a message of Ann to the bot, one second after that with the number before."""
    fields = {
        "id": f"{conversation}-{trace}-{number}",
        "source": ANN,
        "target": BOT,
        "kind": InteractionKind.INPUT,
        "content": f"message {number}",
        "event_time": 1_700_000_000.0 + number,
        **more,
    }
    return Interaction(conversation=conversation, trace=trace, **fields)  # type: ignore[arg-type]
