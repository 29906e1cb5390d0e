"""Recording what users, agents, tools, language models and knowledge say to each other, once, with its cause."""

from devmem.model.interactions import Interaction, InteractionKind, Participant, ParticipantType, in_order
from devmem.recording.calls import Call
from devmem.recording.context import TraceContext, carry, continue_trace, current_trace, in_trace, trace
from devmem.recording.decorators import RecordedCall, record_agent, record_knowledge, record_llm, record_tool
from devmem.recording.forwarder import Sink
from devmem.recording.log import InteractionLog, InteractionStore
from devmem.recording.recorder import Recorder, RecordingOptions, RecordingStatus
from devmem.recording.senders import asked_by
from devmem.recording.waiting import JournalState, WaitingRecords, journal_folder, waiting_records

__all__ = [
    "Call",
    "Interaction",
    "InteractionKind",
    "InteractionLog",
    "InteractionStore",
    "JournalState",
    "Participant",
    "ParticipantType",
    "RecordedCall",
    "Recorder",
    "RecordingOptions",
    "RecordingStatus",
    "Sink",
    "TraceContext",
    "WaitingRecords",
    "asked_by",
    "carry",
    "continue_trace",
    "current_trace",
    "in_order",
    "in_trace",
    "journal_folder",
    "record_agent",
    "record_knowledge",
    "record_llm",
    "record_tool",
    "trace",
    "waiting_records",
]
