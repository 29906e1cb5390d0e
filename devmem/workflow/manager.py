"""The memory of one agent node: its attachments, and what they retrieve and write at each stage."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, cast

from devmem.config.agent import Attachment
from devmem.config.base import MemoryOptions
from devmem.encryption.keys import StoreKey, key_of
from devmem.model.caller import RETRIEVING, Caller, Stage, acting_as
from devmem.model.filters import Filter
from devmem.model.items import MemoryContentSnapshot, Scope
from devmem.model.results import (
    Hit,
    MemoryRetrievalResult,
    MemoryUpdateResult,
    MemoryWritePayload,
    StoreFailure,
    StoreWrite,
    WriteOutcome,
    WriteStatus,
)
from devmem.model.twins import as_async
from devmem.search.merging import MergePolicy, PromptTexts, merge
from devmem.search.rendering import rank_as_devall, strip_recalled
from devmem.stores.memory import MemoryBase, MemoryQuery
from devmem.stores.query_embedding import QueryEmbeddings
from devmem.text.devall_frames import split_turns
from devmem.workflow.attachments import (
    AttachmentHandle,
    OperationCounts,
    OperationHook,
    OperationKind,
    User,
    checked_hits,
    count_attachments,
    log_operation,
    timed,
    visible_to,
)
from devmem.workflow.rescue import UnsavedWrites

MAX_TURNS: Final = 8
"""Maximum number of turns that are searched for; of more, the last ones are."""
EARLIER_WEIGHT: Final = 0.9
"""Factor of the scores that a turn before the last gives; the last one's count in full."""
_UNSAID: Final = WriteOutcome(status=WriteStatus.STORED, reason="the store says nothing about it, as DevAll's do")
_ACCEPTED: Final = (WriteStatus.STORED, WriteStatus.SUPERSEDED, WriteStatus.QUEUED)
_LOG: Final = logging.getLogger(__name__)


def _keys_of(stores: Mapping[str, MemoryBase]) -> dict[str, StoreKey]:
    """Return the keys of the stores that are encrypted, by name."""
    found = {name: next(filter(None, map(key_of, store.files())), None) for name, store in stores.items()}
    return {name: key for name, key in found.items() if key is not None}


class MemoryManager:
    """Retrieves from and writes to the stores that a node is attached to.

    The stores are shared with other managers, and one manager may be called from several threads. A store that fails
    is reported in the result and the log; it takes neither the node nor the other stores down.
    """

    def __init__(
        self,
        attachments: Sequence[Attachment],
        stores: Mapping[str, MemoryBase],
        *,
        options: MemoryOptions | None = None,
        rescue_dir: Path | None = None,
        clock: Callable[[], float] = time.time,
        on_operation: OperationHook = log_operation,
        run_only: Collection[str] = (),
        caller: Caller | None = None,
    ) -> None:
        """Attach a node to its stores.

        Args:
            attachments: what the node reads and writes, in the order in which that happens.
            stores: every store by its name, loaded.
            options: budget, language and ranking of the block.
            rescue_dir: folder in whose state writes that failed wait for the next manager; without one they wait in
                this process, and `close` puts them into the folder for temporary files.
            clock: returns the time in seconds since the epoch.
            on_operation: is called after each search of a store, each write to it, and each call of a handle from
                `attachment`; logs it by default.
            run_only: names of stores in which only items of the same run are seen, where a run is named.
            caller: the node and its agent, for stores that tell agents apart; a call may say more.

        Raises:
            ValueError: an attachment names a store that is not there.
        """
        for attachment in attachments:
            if attachment.name not in stores:
                raise ValueError(f"memory store {attachment.name} not found")
        self._attachments = tuple(attachments)
        self._stores = dict(stores)
        self._options = options or MemoryOptions()
        self._clock = clock
        self._on_operation = on_operation
        self._run_only = frozenset(run_only)
        self._caller = caller or Caller()
        self._embeddings = QueryEmbeddings()
        self._written = tuple(dict.fromkeys(entry.name for entry in attachments if entry.write))
        self._unsaved = UnsavedWrites(rescue_dir, _keys_of(stores))

    @property
    def policy(self) -> MergePolicy:
        """How the hits of several stores are put together for the manager's own caller."""
        options = self._options
        return MergePolicy(
            token_budget=options.token_budget,
            language=options.language,
            dedupe=options.dedupe,
            origins=options.origins,
            reader=self._caller,
        )

    def attachment(self, name: str, scope: Scope | None = None) -> AttachmentHandle:
        """Return a handle on one attached store that stays within a scope and does what the attachment allows.

        Raises:
            KeyError: the node is not attached to a store of this name.
            ValueError: the scope's user is empty text, as an unset variable gives.
        """
        return AttachmentHandle(
            {entry.name: entry for entry in self._attachments}[name],
            self._stores[name],
            scope or Scope(),
            clock=self._clock,
            one_run=name in self._run_only,
            caller=self._caller,
            on_operation=self._on_operation,
        )

    def retrieve(
        self,
        *,
        agent_role: str = "",
        query: MemoryContentSnapshot | str,
        turns: Sequence[str] | None = None,
        current_stage: Stage | str = Stage.GEN,
        user: User = None,
        run: str | None = None,
        where: Filter | None = None,
        caller: Caller | None = None,
        asked_at: datetime | float | None = None,
    ) -> MemoryRetrievalResult | None:
        """Search every attachment that reads at this stage; None when nothing was found and nothing failed.

        Args:
            agent_role: the agent's name or system prompt.
            query: what the user or the previous nodes said; an earlier block of memories in it is not searched for.
            turns: what each of them said, in order, the last weighing most; None reads DevAll's frames in the query.
            current_stage: the stage at which the node is.
            user: whose items are seen, beside unscoped ones; None sees only these, `devmem.ANY` everybody's.
            run: the run that asks; stores that last for one run show its items alone.
            where: a further filter.
            caller: who asks; parts that it leaves open are those of the manager.
            asked_at: when it is asked, with the asker's zone, from which "last week" counts; None is now.

        Raises:
            ValueError: there is no such stage, or the user is empty text.
        """
        asked = MemoryQuery(
            text="",
            agent_role=agent_role,
            caller=self._completed(caller),
            snapshot=MemoryContentSnapshot(text=query) if isinstance(query, str) else query,
            where=visible_to(user, where),
            asked_at=asked_at,
        )
        said = turns_in(asked.snapshot.text if asked.snapshot else "") if turns is None else turns
        texts = turns_to_search([strip_recalled(turn) for turn in said])
        queries = [replace(asked, text=text, embedding=self._embeddings.of(text)) for text in texts]
        found, failures = self._search_all(queries, Stage(current_stage), run)
        if self._options.ranking == "devall":
            found = rank_as_devall(found, queries[-1].text, self._clock())
        prompt = PromptTexts([asked.snapshot.text if asked.snapshot else "", *texts])
        found = [[hit for hit in hits if not prompt.hold(hit.item)] for hits in found]
        result = merge(found, replace(self.policy, reader=asked.caller), failures)
        return result if result.hits or failures else None

    def _search_all(
        self, queries: Sequence[MemoryQuery], stage: Stage, run: str | None
    ) -> tuple[list[list[Hit]], list[StoreFailure]]:
        """Return the hits of each attachment that answered, and the failures of stores and embedding models."""
        found: list[list[Hit]] = []
        failures: list[StoreFailure] = []
        for attachment in self._reading(stage):
            try:
                found.append(self._search(attachment, queries, stage, run))
            except Exception as error:  # noqa: BLE001 - a store type may be anyone's code, and memory never takes a node down
                failures.append(_failure(attachment.name, "retrieve", error))
        # Copied first: another thread with the same query may be adding to it.
        failed = {name: error for query in queries for name, error in [*query.embedding.failures.items()]}
        failures += [
            StoreFailure(model=name, operation="embed the query", error=error) for name, error in failed.items()
        ]
        return found, failures

    def _search(
        self, attachment: Attachment, queries: Sequence[MemoryQuery], stage: Stage, run: str | None
    ) -> list[Hit]:
        store = self._stores[attachment.name]

        def search(query: MemoryQuery) -> list[Hit]:
            where = replace(query.where, min_trust=max(query.where.min_trust, attachment.min_trust))
            if run is not None and attachment.name in self._run_only:
                where = replace(where, scope=replace(where.scope, run=run))
            if attachment.where is not None:
                where &= attachment.where
            asked = replace(
                query,
                limit=attachment.top_k,
                similarity_threshold=attachment.similarity_threshold,
                min_relevance=attachment.min_relevance,
                only_relevant=attachment.relevance and self._options.ranking != "devall",
                where=where,
                view=attachment.view,
            )
            return checked_hits(store.search(asked).hits)

        with self._timed("retrieve", attachment.name, stage) as counts:
            hits = search_turns(queries, attachment.top_k, search)
            counts.items, counts.attachments = len(hits), count_attachments([hit.item for hit in hits])
        return hits

    def _completed(self, caller: Caller | None) -> Caller:
        return caller.completed_by(self._caller) if caller else self._caller

    def _timed(self, kind: OperationKind, store: str, stage: Stage) -> AbstractContextManager[OperationCounts]:
        kept = self._stores[store]
        return timed(kind, store, stage, store=kept, clock=self._clock, report=self._on_operation)

    def update(self, payload: MemoryWritePayload, *, current_stage: Stage | str = Stage.FINISHED) -> MemoryUpdateResult:
        """Write the payload to every attachment that writes at this stage; it is durable when this returns.

        A write that fails is kept, and tried again before the next one to that store.
        """
        stage = Stage(current_stage)
        fresh = without_block(replace(payload, caller=self._completed(payload.caller)))
        writes: list[StoreWrite] = []
        failures: list[StoreFailure] = []
        for attachment in self._attachments:
            if not attachment.write or stage not in attachment.write_stage:
                continue
            operation = "update"
            try:
                lasting = fresh
                if attachment.ttl is not None and fresh.expires_at is None:
                    lasting = replace(fresh, expires_at=self._clock() + attachment.ttl)
                outcome = self._write(attachment.name, lasting, stage)
                writes.append(StoreWrite(store=attachment.name, outcome=outcome))
                if outcome.failure is not None:
                    failures.append(_failure(attachment.name, operation, outcome.failure))
                operation = "save"
                self._stores[attachment.name].save()
            except Exception as error:  # noqa: BLE001 - a store type may be anyone's code, and memory never takes a node down
                failures.append(_failure(attachment.name, operation, error))
        return MemoryUpdateResult(writes=tuple(writes), failures=tuple(failures))

    def _write(self, name: str, payload: MemoryWritePayload, stage: Stage) -> WriteOutcome:
        """Write the unsaved payloads, then this one; failed ones are kept, in order."""
        with self._timed("update", name, stage) as counts:
            outcome = self._unsaved.write(name, payload, partial(self._update_store, name))
            counts.failure = outcome.failure
            if outcome.status in _ACCEPTED:
                counts.items, counts.attachments = 1, count_attachments([payload])
        return outcome

    def _update_store(self, name: str, payload: MemoryWritePayload) -> WriteOutcome:
        with acting_as(payload.caller.name, run=payload.scope.run):
            outcome = cast("WriteOutcome | None", self._stores[name].update(payload))
        return _UNSAID if outcome is None else outcome

    def reads_at(self, stage: Stage) -> bool:
        """Whether an attachment retrieves at a stage."""
        return bool(self._reading(stage))

    def _reading(self, stage: Stage) -> list[Attachment]:
        return [entry for entry in self._attachments if entry.read and stage in (entry.retrieve_stage or RETRIEVING)]

    @property
    def unsaved(self) -> int:
        """Number of writes to the node's stores that failed and wait for another attempt."""
        return self._unsaved.held(self._written)

    def close(self) -> list[Path]:
        """Try once more to write what failed, and return the files in which the rest waits. The stores stay open."""
        for name in self._written:
            error = self._unsaved.flush(name, partial(self._update_store, name))
            if error is not None:
                _failure(name, "update", error)
        return self._unsaved.close(self._written)

    aretrieve = as_async(retrieve)
    aupdate = as_async(update)


def _failure(store: str, operation: str, error: Exception) -> StoreFailure:
    failure = StoreFailure(store=store, operation=operation, error=error)
    _LOG.error("%s", failure, exc_info=error)
    return failure


def turns_in(text: str) -> list[str]:
    """Return what each sender said in a framed text, without recalled memory."""
    return split_turns(strip_recalled(text))


def turns_to_search(turns: Sequence[str]) -> list[str]:
    """Return the texts to search for, each once, the last said one last; one blank text when nothing was said."""
    said = [turn.strip() for turn in turns if turn.strip()]
    distinct = list(dict.fromkeys(reversed(said)))[:MAX_TURNS]
    return distinct[::-1] or [""]


def search_turns(
    queries: Sequence[MemoryQuery], top_k: int, search: Callable[[MemoryQuery], Sequence[Hit]]
) -> list[Hit]:
    """Search for each turn and return the best hits, best first.

    A store's scores are comparable between queries, so an item has the best score that a turn gives it, the last turn
    weighted at most.

    Args:
        queries: one for each turn, at least one, the last said one last.
        top_k: maximum number of hits.
        search: returns a store's hits for one query, best first.
    """
    last = list(search(queries[-1]))
    if len(queries) == 1:
        return last
    best = {hit.item.id: hit for hit in last}
    for query in queries[:-1]:
        for hit in search(query):
            # A score below 0, as a reranker may give, becomes no better by a weight below 1.
            score = hit.score * (EARLIER_WEIGHT if hit.score > 0 else 1 / EARLIER_WEIGHT)
            if hit.item.id not in best or score > best[hit.item.id].score:
                best[hit.item.id] = replace(hit, score=score)
    return sorted(best.values(), key=lambda hit: -hit.score)[:top_k]


def without_block(payload: MemoryWritePayload) -> MemoryWritePayload:
    """Return the payload without the block of memories that its input, or a part of its answer, repeats.

    An answer that is nothing but a block is kept: it is what the agent said.
    """
    turns, output = payload.turns, _without_block(payload.output_snapshot)
    return replace(
        payload,
        inputs_text=strip_recalled(payload.inputs_text),
        turns=turns and tuple(replace(turn, text=strip_recalled(turn.text)) for turn in turns),
        input_snapshot=_without_block(payload.input_snapshot),
        output_snapshot=output if output and output.text else payload.output_snapshot,
    )


def _without_block(snapshot: MemoryContentSnapshot | None) -> MemoryContentSnapshot | None:
    return snapshot and replace(snapshot, text=strip_recalled(snapshot.text))
