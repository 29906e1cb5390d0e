"""Recording what users, agents, tools, language models and knowledge say to each other, once, with its cause."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.model.interactions import Interaction as Interaction
    from devmem.model.interactions import InteractionKind as InteractionKind
    from devmem.model.interactions import Participant as Participant
    from devmem.model.interactions import ParticipantType as ParticipantType
    from devmem.model.interactions import in_order as in_order
    from devmem.recording.calls import Call as Call
    from devmem.recording.calls import TraceContext as TraceContext
    from devmem.recording.calls import asked_by as asked_by
    from devmem.recording.calls import caller_in_trace as caller_in_trace
    from devmem.recording.calls import carry as carry
    from devmem.recording.calls import continue_trace as continue_trace
    from devmem.recording.calls import current_trace as current_trace
    from devmem.recording.calls import in_trace as in_trace
    from devmem.recording.decorators import RecordedCall as RecordedCall
    from devmem.recording.forwarder import Sink as Sink
    from devmem.recording.forwarder import pending_file as pending_file
    from devmem.recording.log import InteractionLog as InteractionLog
    from devmem.recording.log import PromptContext as PromptContext
    from devmem.recording.recorder import InteractionRecorder as InteractionRecorder
    from devmem.recording.recorder import RecordingOptions as RecordingOptions
    from devmem.recording.recorder import RecordingStatus as RecordingStatus
else:
    _ORIGINS = {
        "devmem.model.interactions": "Interaction InteractionKind Participant ParticipantType in_order",
        "devmem.recording.calls": (
            "Call TraceContext asked_by caller_in_trace carry continue_trace current_trace in_trace"
        ),
        "devmem.recording.decorators": "RecordedCall",
        "devmem.recording.forwarder": "Sink pending_file",
        "devmem.recording.log": "InteractionLog PromptContext",
        "devmem.recording.recorder": "InteractionRecorder RecordingOptions RecordingStatus",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
