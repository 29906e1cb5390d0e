"""One agent node, run through its stages: pre, plan, gen, critique, finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from devmem.config import AgentConfig
from devmem.items import MemoryContentSnapshot, Scope
from devmem.llm import ChatModel, ChatReply, ChatRequest
from devmem.manager import MemoryManager
from devmem.messages import Message, Role
from devmem.outcomes import Hit, MemoryRetrievalResult, MemoryUpdateResult, MemoryWritePayload
from devmem.retrieval import merge
from devmem.runtime.results import NodeResult
from devmem.stages import Stage
from devmem.text.frames import frame


@dataclass(slots=True)
class AgentRun:
    """One execution of an agent node."""

    node: str
    config: AgentConfig
    inputs: Sequence[Message]
    """What the user or the previous nodes said."""
    manager: MemoryManager
    chat: ChatModel
    scope: Scope = field(default_factory=Scope)
    _recalled: dict[Stage, MemoryRetrievalResult] = field(default_factory=dict, init=False)
    _written: dict[Stage, MemoryUpdateResult] = field(default_factory=dict, init=False)

    def run(self) -> NodeResult:
        """Go through the stages.

        Memory of `pre`, `plan` and `gen` reaches the answer, memory of `critique` the review. A plan or a review is
        made when the node has a prompt for it. Retrieving at `finished` is for whoever reads the result.

        Raises:
            ChatModelError: the model gave no answer; nothing was written.
        """
        self._retrieve(Stage.PRE)
        self._retrieve(Stage.PLAN)
        plan = self._ask(self.config.plan).text if self.config.plan else None
        self._retrieve(Stage.GEN)
        context = self._context()
        answer = self._answer(plan)
        self._write(Stage.GEN, answer)
        if self.config.critique:
            self._retrieve(Stage.CRITIQUE)
            answer = self._ask(self.config.critique, draft=answer.text)
            self._write(Stage.CRITIQUE, answer)
        self._write(Stage.FINISHED, answer)
        self._retrieve(Stage.FINISHED)
        return NodeResult(
            node=self.node, text=answer.text, recalled=self._recalled, context=context, written=self._written
        )

    @property
    def _inputs_text(self) -> str:
        return "\n\n".join(frame(message.source, message.role.value, message.text()) for message in self.inputs)

    def _retrieve(self, stage: Stage) -> None:
        snapshot = MemoryContentSnapshot.from_messages(self.inputs)
        query = MemoryContentSnapshot(text=self._inputs_text, blocks=snapshot.blocks if snapshot else ())
        result = self.manager.retrieve(agent_role=self.config.role or "", query=query, current_stage=stage)
        if result is not None:
            self._recalled[stage] = result

    def _context(self) -> MemoryRetrievalResult | None:
        """Join what was recalled so far into one block, each item once."""
        results = list(self._recalled.values())
        if len(results) <= 1:
            return results[0] if results else None
        by_store: dict[str, dict[str, None]] = {}
        hits: dict[tuple[str, str], Hit] = {}
        for hit in (hit for result in results for hit in result.hits):
            by_store.setdefault(hit.store, {})[hit.item.id] = None
            hits.setdefault((hit.store, hit.item.id), hit)
        found = [[hits[store, item] for item in items] for store, items in by_store.items()]
        failures = tuple(failure for result in results for failure in result.failures)
        return merge(found, self.manager.policy, failures)

    def _messages(self, *after: Message, role: str | None) -> tuple[Message, ...]:
        """Put the messages together; the block of memories stands right before what was said last."""
        context = self._context()
        messages = [Message(role=Role.SYSTEM, content=role)] if role else []
        if context is not None and context.formatted_text:
            block = Message(role=Role.USER, content=context.formatted_text, source="memory")
            messages += [*self.inputs[:-1], block, *self.inputs[-1:]]
        else:
            messages += self.inputs
        return (*messages, *after)

    def _complete(self, messages: tuple[Message, ...]) -> ChatReply:
        context = self._context()
        request = ChatRequest(messages=messages, recalled=context.hits if context else (), params=self.config.params)
        return self.chat.complete(request)

    def _ask(self, prompt: str, draft: str | None = None) -> ChatReply:
        """Have the model plan, or review a draft; what it says takes the draft's place."""
        said = [] if draft is None else [Message(role=Role.ASSISTANT, content=draft, source=self.node)]
        messages = self._messages(
            *said, Message(role=Role.USER, content=prompt, source="workflow"), role=self.config.role
        )
        return self._complete(messages)

    def _answer(self, plan: str | None) -> ChatReply:
        planned = [] if plan is None else [Message(role=Role.ASSISTANT, content=plan, source=self.node)]
        return self._complete(self._messages(*planned, role=self.config.role))

    def _write(self, stage: Stage, answer: ChatReply) -> None:
        payload = MemoryWritePayload(
            agent_role=self.config.role or "",
            inputs_text=self._inputs_text,
            input_snapshot=MemoryContentSnapshot.from_messages(self.inputs),
            output_snapshot=MemoryContentSnapshot(text=answer.text),
            scope=self.scope,
            source=self.node,
            quoted=answer.quoted,
        )
        result = self.manager.update(payload, current_stage=stage)
        if result.writes or result.failures:
            self._written[stage] = result
