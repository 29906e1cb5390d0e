"""Recording a workflow's runs: each run is a trace, each execution of an agent a call in it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Final

from devmem.config.workflow import CopyRule, Workflow
from devmem.model.interactions import Interaction, Participant, ParticipantType
from devmem.model.items import Scope
from devmem.model.message import Message, Role
from devmem.recording.calls import Call, asked_by
from devmem.recording.log import InteractionLog
from devmem.recording.recorder import InteractionRecorder, RecordingOptions
from devmem.stores.memory import MemoryBase
from devmem.text.devall_frames import frame
from devmem.workflow.stores import records_of, session_folder

_LOG: Final = logging.getLogger(__name__)
_BATCH_SIZE: Final = 500


class CopyingSink:
    """Records into the global memory, and copies into other stores what their rules admit.

    A store that does not take its copies costs no record: `rebuild_views` makes them up.
    """

    def __init__(self, store: InteractionLog, rules: Sequence[CopyRule], stores: Mapping[str, MemoryBase]) -> None:
        """Take the global memory, the rules, and the stores that these name.

        Raises:
            ValueError: a store that a rule names is not there.
        """
        for rule in rules:
            if rule.into not in stores:
                raise ValueError(f"memory store {rule.into!r}, which `conversation.copies` names, was not opened")
        self._store, self._rules, self._stores = store, tuple(rules), stores

    def record(self, interactions: Sequence[Interaction]) -> None:
        """Store records, and their copies.

        Raises:
            DevmemError: the global memory stored nothing; it is tried again later.
        """
        self._store.record(interactions)
        for rule in self._rules:
            try:
                _copy(self._store, interactions, rule, self._stores[rule.into])
            except Exception:  # noqa: BLE001 - a store type may be anyone's code, and the records themselves are stored
                _LOG.exception(
                    "memory store %r lacks copies of recorded interactions; `devmem copy WORKFLOW` adds them", rule.into
                )


def rebuild_view(source: InteractionLog, rule: CopyRule, into: MemoryBase) -> tuple[int, int]:
    """Copy every record that a rule admits into its store; existing ones are left alone.

    Returns:
        the number of admitted records, and of those that were missing.

    Raises:
        DevmemError: a store cannot do its part; what was copied stays, and another call continues.
    """
    admitted = missing = 0
    records = source.every_record()
    while some := list(islice(records, _BATCH_SIZE)):
        done = _copy(source, some, rule, into)
        admitted, missing = admitted + len(done), missing + sum(done)
    return admitted, missing


def _copy(source: InteractionLog, records: Sequence[Interaction], rule: CopyRule, into: MemoryBase) -> list[bool]:
    """Copy what a rule admits; return for each copy whether it was missing."""
    items = source.copies_of([one for one in records if rule.admits(one)])
    return [bool(outcome) for outcome in into.add(items)] if items else []


_USER: Final = "user"
"""Source of a workflow's input."""
_PATIENCE: Final = 2.0
"""Seconds to wait for the store after a run, so that the next one finds what this one said."""


class RunRecording:
    """Records the runs of one workflow, as its `conversation` block says; without the block nothing is recorded."""

    def __init__(self, workflow: Workflow, stores: Mapping[str, MemoryBase], folder: Path | None) -> None:
        """Prepare the recording.

        Args:
            workflow: declares the recording.
            stores: the opened stores, by name.
            folder: in whose state the records of a store without a file wait; None takes that of the session.

        Raises:
            ValueError: a store that the block names is not open.
            TypeError: the one for the records keeps none.
        """
        block = workflow.conversation
        agents = self._configs = {node.id: node.config for node in workflow.nodes if node.config is not None}
        self._agents = {node: config.agent or node for node, config in agents.items()}
        self._recorder: InteractionRecorder | None = None
        self._is_read = False
        if block is None or not block.active:
            return
        store = stores.get(block.store)
        if store is None:
            raise ValueError(f"memory store {block.store!r}, which `conversation` names, was not opened")
        if not isinstance(store, InteractionLog):
            raise TypeError(f"memory store {block.store!r}, which `conversation` names, keeps no records")
        file, name = records_of(store, folder or session_folder(workflow))
        sink = CopyingSink(store, block.copies, stores) if block.copies else store
        options = RecordingOptions(
            types=frozenset(ParticipantType(kind) for kind in block.types),
            language=block.language,
            max_content_length=block.max_content_length,
            secret_patterns=block.secret_patterns,
            max_pending_bytes=block.max_pending_bytes,
        )
        self._recorder = InteractionRecorder(sink, file, options, store=name)
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

        An agent with `auto_trace: false` is not recorded, nor is what it calls.

        Outside of a trace nothing is recorded. Inside of one that the caller began, the call belongs to that.
        """
        config = self._configs[node]
        call = Call(
            Participant(self._agents[node], ParticipantType.AGENT),
            _asked(inputs),
            auto_trace=config.auto_trace,
            collection_types=config.collection_types,
        )
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
        """Wait a moment for the store where agents read records."""
        if self._recorder is not None and self._is_read and not self._recorder.flush(_PATIENCE):
            _LOG.warning(
                "what was said last is stored later: %s", self._recorder.status().failure or "the store is slow"
            )

    def close(self) -> None:
        """Bring what was recorded into the store; what it does not take waits for the next run."""
        if self._recorder is not None and not self._recorder.close():
            _LOG.error("records wait for the next run: %s", self._recorder.status().failure)


def _asked(inputs: Sequence[Message]) -> str:
    """Return the text that an agent got: that of its only sender, or of all, each in a frame."""
    if len(inputs) == 1:
        return inputs[0].text()
    return "\n\n".join(frame(message.source, message.role.value, message.text()) for message in inputs)
