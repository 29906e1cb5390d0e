"""Recording a workflow's runs: each run is a trace, each execution of an agent a call in it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final
from urllib.parse import quote

from devmem.config import Workflow
from devmem.config.conversation import ConversationRecording
from devmem.messages import Message, Role
from devmem.model.interactions import Participant, ParticipantType
from devmem.model.items import Scope
from devmem.recording import Call, InteractionStore, Recorder, RecordingOptions, asked_by, journal_folder
from devmem.runtime.stores import session_folder
from devmem.runtime.view_copies import CopyingSink
from devmem.stores import MemoryBase, PlaceConfig
from devmem.text.frames import frame

_LOG: Final = logging.getLogger(__name__)
_USER: Final = "user"
"""Source of a workflow's input."""
_PATIENCE: Final = 2.0
"""Seconds to wait for the store after a run, so that the next one finds what this one said."""


class RunRecording:
    """Records the runs of one workflow, as its `conversation` block says; without the block nothing is recorded."""

    def __init__(self, workflow: Workflow, stores: Mapping[str, MemoryBase], folder: Path | None) -> None:
        """Prepare the recording.

        Args:
            workflow: says what is recorded.
            stores: the opened stores, by name.
            folder: where the journals are of a store without a file; None takes that of the session.

        Raises:
            ValueError: a store that the block names is not open.
            TypeError: the one for the records keeps none.
        """
        block = workflow.conversation
        agents = {node.id: node.config for node in workflow.nodes if node.config is not None}
        self._agents = {node: config.agent or node for node, config in agents.items()}
        self._recorder: Recorder | None = None
        self._is_read = False
        if block is None or not block.active:
            return
        store = stores.get(block.store)
        if store is None:
            raise ValueError(f"memory store {block.store!r}, which `conversation` names, was not opened")
        if not isinstance(store, InteractionStore):
            raise TypeError(f"memory store {block.store!r}, which `conversation` names, keeps no records")
        journals = journals_of(store, folder or session_folder(workflow))
        sink = CopyingSink(store, block.copies, stores) if block.copies else store
        self._recorder = Recorder(sink, journals, _options(block))
        attached = [entry for config in agents.values() for entry in config.memories]
        written = {block.store, *(rule.into for rule in block.copies)}
        self._is_read = any(entry.read and entry.name in written for entry in attached)

    @property
    def is_on(self) -> bool:
        """Whether runs are recorded."""
        return self._recorder is not None

    def run(self, scope: Scope) -> AbstractContextManager[object]:
        """Begin the trace of a run: its id is the run's."""
        if self._recorder is None:
            return nullcontext()
        conversation = scope.conversation or scope.session or scope.run
        return self._recorder.trace(conversation=conversation, trace=scope.trace or scope.run, user=scope.user)

    @contextmanager
    def call(self, node: str, inputs: Sequence[Message]) -> Iterator[Call]:
        """Record a block as an execution of an agent node, which the last sender of its inputs asked for.

        Outside of a trace nothing is recorded. Inside of one that the caller began, the call belongs to that.
        """
        call = Call(Participant(self._agents[node], ParticipantType.AGENT), _asked(inputs))
        with asked_by(self._sender(inputs)), call:
            yield call

    def _sender(self, inputs: Sequence[Message]) -> Participant | None:
        """Return who spoke last; None for the user, who began the trace."""
        last = inputs[-1] if inputs else None
        if last is None or last.source in ("", _USER):
            return None
        kind = ParticipantType.TOOL if last.role is Role.TOOL else ParticipantType.AGENT
        return Participant(self._agents.get(last.source, last.source), kind)

    def settle(self) -> None:
        """Wait a moment for the store where agents read what is recorded."""
        if self._recorder is not None and self._is_read and not self._recorder.flush(_PATIENCE):
            _LOG.warning(
                "what was said last is stored later: %s", self._recorder.status().failure or "the store is slow"
            )

    def close(self) -> None:
        """Bring what was recorded into the store; what it does not take stays in the journal."""
        if self._recorder is not None and not self._recorder.close():
            _LOG.error("records wait in the journal for the next run: %s", self._recorder.status().failure)


def _options(block: ConversationRecording) -> RecordingOptions:
    return RecordingOptions(
        types=frozenset(ParticipantType(kind) for kind in block.types),
        language=block.language,
        max_content_length=block.max_content_length,
        secret_patterns=block.secret_patterns,
        max_journal_bytes=block.max_journal_bytes,
    )


def journals_of(store: MemoryBase, folder: Path) -> Path:
    """Return the folder of a store's journals: beside its file, or else in the given folder."""
    config = store.setup.config
    place = store.setup.location(config.memory_path) if isinstance(config, PlaceConfig) else None
    if place is not None and "://" not in place:
        return journal_folder(place)
    return folder / "journals" / quote(store.name, safe="")


def _asked(inputs: Sequence[Message]) -> str:
    """Return the text that an agent got: that of its only sender, or of all, each in a frame."""
    if len(inputs) == 1:
        return inputs[0].text()
    return "\n\n".join(frame(message.source, message.role.value, message.text()) for message in inputs)
