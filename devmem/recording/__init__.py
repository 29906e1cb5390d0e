"""Recording what users, agents, tools, language models and knowledge say to each other, once, with its cause."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.model.interactions import Interaction, InteractionKind, Participant, ParticipantType, in_order
    from devmem.recording.calls import (
        Call,
        TraceContext,
        asked_by,
        caller_in_trace,
        carry,
        continue_trace,
        current_trace,
        in_trace,
        trace,
    )
    from devmem.recording.decorators import RecordedCall, record_agent, record_knowledge, record_llm, record_tool
    from devmem.recording.forwarder import JournalState, Sink, WaitingRecords, journal_folder, waiting_records
    from devmem.recording.log import (
        CopySource,
        InteractionLog,
        InteractionStore,
        PromptContext,
        TokenTrimming,
    )
    from devmem.recording.recorder import InteractionRecorder, RecordingOptions, RecordingStatus
else:
    __getattr__, __dir__ = _lazy_names(__name__)

__all__ = [
    "Call",
    "CopySource",
    "Interaction",
    "InteractionKind",
    "InteractionLog",
    "InteractionRecorder",
    "InteractionStore",
    "JournalState",
    "Participant",
    "ParticipantType",
    "PromptContext",
    "RecordedCall",
    "RecordingOptions",
    "RecordingStatus",
    "Sink",
    "TokenTrimming",
    "TraceContext",
    "WaitingRecords",
    "asked_by",
    "caller_in_trace",
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
