"""Running a workflow's agent nodes with their memories."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeAlias
from uuid import uuid4

from devmem import telemetry
from devmem.config.agent import CARRIED_OUT, AgentConfig, LiteralConfig, PassthroughConfig
from devmem.config.workflow import NodeConfig, Workflow
from devmem.errors import ChatModelError, DevmemError, NodeFailedError
from devmem.model.caller import Caller, acting_as
from devmem.model.filters import Filter
from devmem.model.items import ANY, Scope
from devmem.model.message import Message, MessageBlock, Role
from devmem.model.twins import as_async
from devmem.models.chat import ChatModel, Quotation
from devmem.models.chat_providers import open_chat_model
from devmem.models.http_client import service_address
from devmem.recording.calls import caller_in_trace
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.config import PlaceConfig
from devmem.stores.memory import MemoryBase
from devmem.workflow.agent import AgentRun
from devmem.workflow.attachments import OperationHook, User, log_operation
from devmem.workflow.graph import Graph, NodeResult, RunResult
from devmem.workflow.manager import MemoryManager
from devmem.workflow.recording import RunRecording
from devmem.workflow.stores import open_recalls, session_folder
from devmem.workflow.transaction import in_transaction, recover

_LOG: Final = logging.getLogger(__name__)
_UNBOUND: Final = Filter(unbound=("user",))


def count_hidden(nodes: Iterable[NodeConfig], stores: Mapping[str, MemoryBase], user: User) -> dict[str, int]:
    """Return the number of items bound to users in each store that the nodes read; empty when the run sees them.

    Stores without a collection, such as those behind a service, are left out: counting would cost a request.
    """
    if user is not None:
        return {}
    read = dict.fromkeys(
        entry.name for node in nodes if node.config is not None for entry in node.config.memories if entry.read
    )
    counts: dict[str, int] = {}
    for name in read:
        if isinstance(store := stores.get(name), CollectionMemory):
            try:
                counts[name] = store.count() - store.count(_UNBOUND)
            except DevmemError as error:
                _LOG.warning("The items of memory store %r that belong to users cannot be counted: %s", name, error)
    return {name: count for name, count in counts.items() if count}


def pass_on(node: NodeConfig, inputs: Sequence[Message]) -> NodeResult:
    """Return the output of a node other than an agent: a literal its text, any other its inputs."""
    settings = node.settings
    if isinstance(settings, LiteralConfig):
        said = Message(role=Role(settings.role), content=settings.content, source=node.id)
        return NodeResult(node=node.id, text=said.text(), messages=(said,))
    is_passthrough = node.type == "passthrough"
    passthrough = settings if isinstance(settings, PassthroughConfig) else PassthroughConfig()
    if is_passthrough and passthrough.only_last_message:
        inputs = inputs[-1:]
    text = "\n\n".join(message.text() for message in inputs)
    quotations = [found for each in inputs if (found := Quotation.in_message(each))]
    quotation = Quotation.joined(quotations) if quotations and len(quotations) == len(inputs) else None
    messages = tuple(inputs) if is_passthrough else ()
    return NodeResult(node=node.id, text=text, quotation=quotation, messages=messages)


Managers: TypeAlias = Mapping[str, MemoryManager]
"""The manager of each agent node, by node id."""
ChatModels = Callable[[NodeConfig, AgentConfig], ChatModel]
"""Chooses the chat model of an agent node."""
_Time: TypeAlias = datetime | float | None
TextHook = Callable[[str, str], None]
"""Takes a node's id and a piece of what its model says."""


def configured_chat_models(workflow: Workflow) -> ChatModels:
    """Return the chooser that opens what each node's configuration names.

    It raises `ConfigError` when a placeholder of the node has no value, `ChatModelError` when the model cannot be used.
    """

    def choose(node: NodeConfig, config: AgentConfig) -> ChatModel:
        if config.provider != "extractive":
            workflow.require_resolved(*node.place.location)
        return open_chat_model(config.provider, model=config.model, api_key=config.api_key, base_url=config.base_url)

    return choose


def attached_stores(workflow: Workflow, node: str | None = None) -> list[str]:
    """Name the stores that the workflow's agents (or one of them) are attached to, and the one that records them."""
    nodes = [workflow.node(node)] if node is not None else list(workflow.nodes)
    used = [entry.name for each in nodes if each.config is not None for entry in each.config.memories]
    return list(dict.fromkeys([*used, *workflow.recording_stores]))


class WorkflowRunner:
    """Runs the nodes of a workflow along its edges; nodes of types that devmem does not run pass their input on.

    It may run several inputs one after another; the stores stay open between them and belong to the caller. Closing it,
    or leaving its `with` block, sees to writes that failed.
    """

    def __init__(
        self,
        workflow: Workflow,
        stores: Mapping[str, MemoryBase],
        *,
        chat_models: ChatModels | None = None,
        scope: Scope | None = None,
        all_users: bool = False,
        rescue_dir: Path | None = None,
        on_operation: OperationHook = log_operation,
        on_text: TextHook | None = None,
    ) -> None:
        """Prepare a workflow for running.

        Args:
            workflow: what to run.
            stores: every store that an agent is attached to, and the one that `conversation` names, loaded.
            chat_models: chooses each node's chat model; None takes what the node's configuration names.
            scope: whom the run is for; each input gets its own `run`. Items of its user are recalled beside
                unscoped ones; without a user only these are.
            all_users: recall everybody's items, whoever the run is for.
            rescue_dir: where writes go that failed to the end.
            on_operation: is called after each search of a store and each write to it; logs it by default.
            on_text: is called with a node's id and each piece of what its model says, while it comes.

        Raises:
            ValueError: the scope's user is empty text, as an unset variable gives; or the store that `conversation`
                names is not among the stores.
            TypeError: that store keeps no records.
        """
        if scope is not None and scope.user is not None and not scope.user.strip():
            raise ValueError("the run's user is empty; leave it out where there is none")
        self._workflow = workflow
        self._graph = Graph(workflow)
        self._chat_models = chat_models or configured_chat_models(workflow)
        self._stores = stores
        self._scope = scope or Scope()
        self._user: User = ANY if all_users else self._scope.user
        self._recording = RunRecording(workflow, stores, rescue_dir)
        self._recalls = open_recalls(workflow, rescue_dir or session_folder(workflow))
        self._rescue_dir, self._on_operation = rescue_dir, on_operation
        self._managers = _open_managers(workflow, stores, rescue_dir, on_operation)
        self._chats, self._on_text = dict[str, ChatModel](), on_text
        recover(stores, rescue_dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        text: str,
        *,
        node: str | None = None,
        attachments: Sequence[MessageBlock] = (),
        asked_at: _Time = None,
    ) -> RunResult:
        """Run the workflow, or one of its nodes alone, with a text as its input.

        Args:
            text: what the user says.
            node: the node that runs alone.
            attachments: files beside the text.
            asked_at: when it is said, from which "last week" in it counts; the days are those of a `datetime`'s zone,
                or for seconds since the epoch of the machine's. None is now.

        Raises:
            KeyError: there is no such node.
            ConfigError: a placeholder that a node needs has no value.
            NodeFailedError: a chat model gave no answer, or cannot be used; what earlier nodes and stages wrote is
                kept, unless the workflow is a `transaction`.
            RunFailedError, RunConflictError, NoVersionsError: the workflow is a `transaction`, and cannot be committed;
                what it wrote was dropped.
        """
        asked = Message(role=Role.USER, content=text, source="user", blocks=attachments)
        chosen = None if node is None else self._workflow.node(node)
        name = self._workflow.file.stem if self._workflow.file else "workflow"
        with telemetry.call_operation("workflow", name):
            trace = self._scope.trace or telemetry.trace_id()
            scope = replace(self._scope, run=self._scope.run or uuid4().hex, trace=trace)
            with self._recording.run(scope), acting_as(run=scope.run):
                result = self._run_committed(chosen, asked, scope, asked_at)
        self._recording.settle()
        return replace(result, trace=scope.trace or scope.run if self._recording.is_on else None)

    arun = as_async(run)

    def _run_committed(self, node: NodeConfig | None, asked: Message, scope: Scope, asked_at: _Time) -> RunResult:
        """Run all or one of the nodes, as a transaction where the workflow says so."""

        def run(managers: Managers) -> RunResult:
            if node is None:
                return self._run_all(asked, scope, managers, asked_at)
            result = self._run_node(node, [asked], scope, managers, asked_at)
            hidden = count_hidden([node], self._stores, self._user)
            return RunResult(nodes=(result,), output=result.text, warnings=self._not_carried_out(node), hidden=hidden)

        def run_on(stores: Mapping[str, MemoryBase]) -> RunResult:
            # A write that fails ends the run: nothing is left to be rescued.
            return run(_open_managers(self._workflow, stores, None, self._on_operation))

        if not self._workflow.transaction:
            return run(self._managers)
        return in_transaction(self._workflow, self._stores, scope.run or "", self._rescue_dir, run_on)

    def _run_all(self, asked: Message, scope: Scope, managers: Managers, asked_at: _Time) -> RunResult:
        warnings = [
            f"the edge from {edge.source!r} to {edge.target!r} leads back and is not followed"
            for edge in self._graph.back_edges
        ]
        done: dict[str, NodeResult] = {}
        for name in self._graph.order:
            node = self._workflow.node(name)
            inputs = self._graph.inputs(name, asked, done)
            if inputs is None:
                warnings.append(f"node {name!r} did not run: no edge that is followed leads to it")
                _LOG.warning("%s", warnings[-1])
                continue
            warnings += self._not_carried_out(node)
            if node.type == "human" and inputs != [asked]:
                _LOG.warning("%s", warnings[-1])
            try:
                done[name] = self._run_node(node, inputs, scope, managers, asked_at)
            except NodeFailedError as error:
                error.nodes = (*done.values(), *error.nodes)
                raise
        results = tuple(done.values())
        ends = [result for result in results if self._workflow.node(result.node).type in CARRIED_OUT]
        output = (ends or [*results])[-1].text if results else asked.content
        hidden = count_hidden(self._workflow.nodes, self._stores, self._user)
        return RunResult(nodes=results, output=output, warnings=tuple(warnings), hidden=hidden)

    def _run_node(
        self, node: NodeConfig, inputs: Sequence[Message], scope: Scope, managers: Managers, asked_at: _Time
    ) -> NodeResult:
        if node.config is None:
            return pass_on(node, inputs)
        if node.id not in managers:
            raise KeyError(f"the stores of node {node.id!r} were not opened")
        config, name = node.config, node.config.agent or node.id
        with self._recording.call(node.id, inputs) as call, acting_as(name):
            agent: AgentRun | None = None
            caller = Caller(node=node.id, agent=name, call=caller_in_trace().call or uuid4().hex)
            try:
                if node.id not in self._chats:
                    self._chats[node.id] = self._chat_models(node, config)
                agent = AgentRun(
                    node=node.id,
                    config=config,
                    inputs=inputs,
                    manager=managers[node.id],
                    chat=self._chats[node.id],
                    scope=scope,
                    user=self._user,
                    caller=caller.completed_by(Caller.of(scope)),
                    asked_at=asked_at,
                    recalls=self._recalls,
                    on_text=None if self._on_text is None else partial(self._on_text, node.id),
                )
                result = agent.run()
            except ChatModelError as error:
                raise NodeFailedError(
                    node.id,
                    provider=config.provider,
                    address=service_address(config.provider, config.base_url),
                    reason=str(error),
                    nodes=() if agent is None else (agent.so_far(),),
                ) from error
            call.output(result.text)
        return result

    @staticmethod
    def _not_carried_out(node: NodeConfig) -> tuple[str, ...]:
        if node.type in CARRIED_OUT:
            return ()
        return (f"node {node.id!r} is of type {node.type!r}, which devmem does not run; its input is passed on",)

    def close(self) -> list[Path]:
        """Try once more to write what failed, and put the rest into files, which are returned.

        Stores with a `consolidate:` block are consolidated then, if that is due.
        """
        self._recording.close()
        self._recalls.close()
        from devmem.stores.consolidation import consolidate_when_due

        files = [file for manager in self._managers.values() for file in manager.close()]
        for name, store in self._stores.items():
            try:
                consolidate_when_due(store)
            except (DevmemError, OSError) as error:
                # What the run wrote is stored.
                _LOG.warning("memory store %r could not be consolidated: %s", name, error)
        return files


def _open_managers(
    workflow: Workflow, stores: Mapping[str, MemoryBase], rescue_dir: Path | None, on_operation: OperationHook
) -> dict[str, MemoryManager]:
    """Return the manager of each agent node all of whose stores are there, by node id."""
    # In DevAll, a store without a path lasts for one run.
    one_run = {
        store.name
        for store in workflow.memory
        if isinstance(store.config, PlaceConfig) and "memory_path" not in store.config.model_fields_set
    }
    return {
        node.id: MemoryManager(
            node.config.memories,
            stores,
            options=workflow.options(node),
            rescue_dir=rescue_dir,
            on_operation=on_operation,
            run_only=one_run if workflow.is_devall else (),
            caller=Caller(node=node.id, agent=node.config.agent or node.id),
        )
        for node in workflow.nodes
        if node.config is not None and all(entry.name in stores for entry in node.config.memories)
    }
