"""Recording what agents are shown, where a workflow has `record_recalls`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final
from uuid import uuid4

from devmem.errors import DevmemError
from devmem.model.caller import Caller, Stage, current_actor
from devmem.model.items import Scope
from devmem.model.results import Hit, MemoryRetrievalResult
from devmem.search.rendering import entry_lines
from devmem.storage.recall_log import Recall, RecallLog

_LOG: Final = logging.getLogger(__name__)


class RecallRecorder:
    """Records what agents are shown; without a log nothing. Thread-safe."""

    def __init__(self, log: RecallLog | None) -> None:
        """Take the log; None is none."""
        self._log = log
        self._run = uuid4().hex
        """Run of what a host is shown outside of any: one for each time that a memory is opened."""

    def record(self, recall: Callable[[], Recall]) -> None:
        """Store a recall; a failure is logged, since it must not take the agent down."""
        if self._log is None:
            return
        try:
            self._log.record(recall())
        except (DevmemError, ValueError):
            _LOG.exception("what an agent was shown could not be recorded")

    def record_for_host(
        self,
        store: str,
        query: str,
        shown: MemoryRetrievalResult | Sequence[Hit] | None,
        *,
        host: str,
        scope: Scope,
        stage: Stage = Stage.GEN,
        seconds: float | None = None,
        budget: int | None = None,
    ) -> None:
        """Record what the agent of another program was shown of one store.

        Args:
            store: name of the store of hits that name none.
            query: the text that was searched for; empty where it was a vector.
            shown: the block, or the hits in the order in which the program got them; None is nothing.
            host: the program; it is named where the scope has no agent.
            scope: whose items were searched; a conversation, or a session, is a run here.
            stage: step of the agent's execution; most programs have none.
            seconds: duration of the search.
            budget: tokens that the block might take.
        """
        if self._log is None:
            return
        result = shown if isinstance(shown, MemoryRetrievalResult) else _listed(shown or ())
        caller = Caller(node=host, agent=scope.agent or host, conversation=scope.conversation or scope.session)
        own = replace(
            result,
            hits=tuple(replace(hit, store=hit.store or store) for hit in result.hits),
            cut=tuple(replace(one, hit=replace(one.hit, store=one.hit.store or store)) for one in result.cut),
        )
        self.record(
            lambda: Recall.of(
                own,
                at=time.time(),
                stage=stage,
                caller=caller,
                query=query,
                run=current_actor().run or scope.run or caller.conversation or self._run,
                user=scope.user,
                budget=budget,
                seconds=seconds,
            )
        )

    def close(self) -> None:
        """Close the log; nothing is recorded afterwards."""
        if self._log is not None:
            self._log.close()


def _listed(hits: Sequence[Hit]) -> MemoryRetrievalResult:
    """Return hits as a block of their texts, for a program that words its own."""
    lines = [entry_lines(number, hit.snippet) for number, hit in enumerate(hits, start=1)]
    return MemoryRetrievalResult(formatted_text="\n".join(lines), hits=tuple(hits))
