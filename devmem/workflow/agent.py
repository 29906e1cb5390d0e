"""One agent node, run through its stages: pre, plan, gen, critique, finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final

from devmem import telemetry
from devmem.config.agent import AgentConfig
from devmem.model.caller import Caller, Stage, Turn
from devmem.model.items import TRUST, MemoryContentSnapshot, Scope, SourceKind
from devmem.model.message import Message, MessageBlock, Role
from devmem.model.results import CutHit, Hit, MemoryRetrievalResult, MemoryUpdateResult, MemoryWritePayload
from devmem.models.chat import ChatModel, ChatReply, ChatRequest, Quotation, StreamingChatModel, Usage
from devmem.models.http_client import service_address
from devmem.recording.decorators import record_llm
from devmem.search.merging import merge
from devmem.storage.recall_log import Recall
from devmem.stores.recalls import RecallRecorder
from devmem.text.devall_frames import frame
from devmem.workflow.attachments import User
from devmem.workflow.graph import NodeResult
from devmem.workflow.manager import MemoryManager

_RECALLED_IMAGES: Final = 4
"""Maximum number of recalled images that reach the model: each costs it as much as a page of text."""


@dataclass(slots=True)
class AgentRun:
    """One execution of an agent node."""

    node: str
    config: AgentConfig
    inputs: Sequence[Message]
    """Messages of the user or of the previous nodes."""
    manager: MemoryManager
    chat: ChatModel
    scope: Scope = field(default_factory=Scope)
    """Whom the run is for; what is written belongs to it."""
    user: User = None
    """Whose items are recalled, beside unscoped ones; `devmem.ANY` is everybody."""
    caller: Caller = field(default_factory=Caller)
    """The node's agent, and this call of it."""
    asked_at: datetime | float | None = None
    """When the run was asked for, with the asker's zone; None is now."""
    on_text: Callable[[str], None] | None = None
    """Is called with each piece of what the model says, while it comes; plans and drafts that are reviewed, too."""
    recalls: RecallRecorder | None = None
    """Records what the model is shown."""
    _usage: Usage = field(default_factory=Usage, init=False)
    _recalled: dict[Stage, MemoryRetrievalResult] = field(default_factory=dict, init=False)
    _written: dict[Stage, MemoryUpdateResult] = field(default_factory=dict, init=False)
    _context: MemoryRetrievalResult | None = field(default=None, init=False)
    """Everything recalled so far in one block, each item once."""

    def run(self) -> NodeResult:
        """Go through the stages.

        Memory of `pre`, `plan` and `gen` reaches the answer, memory of `critique` the review. A plan or a review is
        made when the node has a prompt for it; without it there is no such stage. Retrieving at `finished` is for
        whoever reads the result. Each stage writes what it made: `pre` the input alone, `plan` the plan, `gen` the
        draft, `critique` and `finished` the final answer.

        Raises:
            ChatModelError: the model gave no answer; only stages that were over have written.
        """
        self._retrieve(Stage.PRE)
        self._write(Stage.PRE, None)
        plan: ChatReply | None = None
        if self.config.plan:
            self._retrieve(Stage.PLAN)
            plan = self._ask(self.config.plan)
            self._write(Stage.PLAN, plan)
        self._retrieve(Stage.GEN)
        context = self._context
        planned = [] if plan is None else [Message(role=Role.ASSISTANT, content=plan.text, source=self.node)]
        answer = self._complete(self._messages(*planned))
        self._write(Stage.GEN, answer)
        if self.config.critique:
            self._retrieve(Stage.CRITIQUE)
            answer = self._ask(self.config.critique, draft=answer.text)
            self._write(Stage.CRITIQUE, answer)
        self._write(Stage.FINISHED, answer)
        self._retrieve(Stage.FINISHED)
        return replace(
            self.so_far(),
            text=answer.text,
            quotation=answer.quotation,
            context=context,
            tool_calls=answer.tool_calls,
        )

    def so_far(self) -> NodeResult:
        """Return what the stages recalled and wrote that are over, without an answer."""
        return NodeResult(node=self.node, text="", recalled=self._recalled, written=self._written, usage=self._usage)

    def _retrieve(self, stage: Stage) -> None:
        snapshot = MemoryContentSnapshot.from_messages(self.inputs)
        asked = _asked(self.inputs)
        query = MemoryContentSnapshot(text=_framed(asked), blocks=snapshot.blocks if snapshot else ())
        begin = time.perf_counter()
        result = self.manager.retrieve(
            agent_role=self.config.role or "",
            query=query,
            turns=[message.text() for message in asked],
            current_stage=stage,
            user=self.user,
            run=self.scope.run,
            caller=self.caller,
            asked_at=self.asked_at,
        )
        seconds = time.perf_counter() - begin
        if result is not None:
            self._recalled[stage] = result
            self._context = self._joined(list(self._recalled.values()))
        if self.recalls is not None and self.manager.reads_at(stage):
            asked_text = "\n\n".join(message.text() for message in asked)
            self.recalls.record(partial(self._recall, stage, asked_text, () if result is None else result.cut, seconds))

    def _recall(self, stage: Stage, query: str, cut: Sequence[CutHit], seconds: float) -> Recall:
        """Return what the model is shown from a stage on; `cut` is what that stage found beside it."""
        return Recall.of(
            self._context and replace(self._context, cut=tuple(cut)),
            at=time.time(),
            stage=stage,
            caller=self.caller,
            query=query,
            run=self.scope.run,
            user=self.scope.user,
            budget=self.manager.policy.token_budget,
            seconds=seconds,
        )

    def _joined(self, results: Sequence[MemoryRetrievalResult]) -> MemoryRetrievalResult:
        if len(results) == 1:
            return results[0]
        by_store: dict[str, dict[str, None]] = {}
        hits: dict[tuple[str, str], Hit] = {}
        for hit in sorted((hit for result in results for hit in result.hits), key=lambda hit: -hit.score):
            by_store.setdefault(hit.store, {})[hit.item.id] = None
            hits.setdefault((hit.store, hit.item.id), hit)
        found = [[hits[store, item] for item in items] for store, items in by_store.items()]
        failures = tuple(failure for result in results for failure in result.failures)
        return merge(found, self.manager.policy, failures)

    def _messages(self, *after: Message) -> tuple[Message, ...]:
        """Put the messages together; the block of memories stands right before what was said last."""
        context, role = self._context, self.config.role
        messages = [Message(role=Role.SYSTEM, content=role)] if role else []
        # To the model, what other nodes said is said by its user; its own words are only the draft and the plan.
        said = [message.with_role(Role.USER) for message in self.inputs]
        if context is not None and context.formatted_text:
            block = Message(
                role=Role.USER,
                content=context.formatted_text,
                source="memory",
                blocks=_recalled_images(context.hits, self.inputs),
            )
            messages += [*said[:-1], block, *said[-1:]]
        else:
            messages += said
        return (*messages, *after)

    def _complete(self, messages: tuple[Message, ...]) -> ChatReply:
        context = self._context
        request = ChatRequest(messages=messages, recalled=context.hits if context else (), params=self.config.params)
        asked = [message.for_chat() for message in messages]
        with record_llm(self.config.model or self.config.provider, asked) as call:
            reply = self._reply(request)
            if telemetry.is_enabled():
                tokens = (reply.usage.input_tokens, reply.usage.output_tokens) if reply.usage else None
                address = service_address(self.config.provider, self.config.base_url)
                call.annotate(telemetry.model_attributes(self.config.provider, address, tokens))
            calls = list(reply.tool_calls)
            call.output({"text": reply.text, "tool_calls": calls} if calls else reply.text)
        self._usage = self._usage + reply.usage if reply.usage else self._usage
        return reply

    def _reply(self, request: ChatRequest) -> ChatReply:
        if self.on_text is None:
            return self.chat.complete(request)
        if isinstance(self.chat, StreamingChatModel):
            return self.chat.stream(request, self.on_text)
        reply = self.chat.complete(request)
        self.on_text(reply.text)
        return reply

    def _ask(self, prompt: str, draft: str | None = None) -> ChatReply:
        """Have the model plan, or review a draft; what it says takes the draft's place."""
        said = [] if draft is None else [Message(role=Role.ASSISTANT, content=draft, source=self.node)]
        asked = Message(role=Role.USER, content=prompt, source="workflow")
        return self._complete(self._messages(*said, asked))

    def _write(self, stage: Stage, answer: ChatReply | None) -> None:
        # A user's own words are relied on most, a tool's result least, and an answer no more than what was recalled.
        kinds = {Role.USER: SourceKind.USER, Role.TOOL: SourceKind.TOOL}
        trusts = [TRUST[kinds.get(message.role, SourceKind.NODE)] for message in self.inputs]
        recalled = self._context.hits if self._context else ()
        trusts += [TRUST[SourceKind.USER]] if answer is None else [TRUST[SourceKind.NODE]]
        trusts += [] if answer is None else [hit.item.trust for hit in recalled]
        payload = MemoryWritePayload(
            agent_role=self.config.role or "",
            inputs_text=_framed(self.inputs),
            turns=tuple(
                Turn(text=message.text(), speaker=message.source, role=message.role.value) for message in self.inputs
            ),
            input_snapshot=MemoryContentSnapshot.from_messages(self.inputs),
            output_snapshot=MemoryContentSnapshot(text=answer.text) if answer is not None else None,
            scope=self.scope,
            source=self.node,
            caller=self.caller,
            trust=min(trusts),
            quoted=answer is not None and answer.quotation is not None,
        )
        result = self.manager.update(payload, current_stage=stage)
        if result.writes or result.failures:
            self._written[stage] = result


def _recalled_images(hits: Sequence[Hit], inputs: Sequence[Message]) -> list[MessageBlock]:
    """Return the images of recalled items that the input does not hold, those of the best hits first, each once."""
    given = {block.attachment.sha256 for each in inputs for block in each.blocks if block.attachment}
    found: dict[str, MessageBlock] = {}
    for hit in sorted(hits, key=lambda hit: -hit.score):
        for snapshot in (hit.item.input_snapshot, hit.item.output_snapshot):
            for block in snapshot.to_message_blocks() if snapshot else ():
                ref = block.attachment
                if block.type == "image" and ref is not None and (ref.sha256 is None or ref.sha256 not in given):
                    found.setdefault(ref.sha256 or ref.attachment_id, block)
    return list(found.values())[:_RECALLED_IMAGES]


def _asked(inputs: Sequence[Message]) -> list[Message]:
    """Return the inputs with the question in the place of an answer that only quotes memory."""
    questions = ((each, Quotation.in_message(each)) for each in inputs)
    return [replace(each, content=found.question) if found and found.question else each for each, found in questions]


def _framed(messages: Sequence[Message]) -> str:
    return "\n\n".join(frame(message.source, message.role.value, message.text()) for message in messages)
