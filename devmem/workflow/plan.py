"""The plan of a run, read from the workflow's file: nothing is opened, asked or written."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, runtime_checkable
from urllib.parse import urlsplit

from pydantic import JsonValue

from devmem.config.agent import AgentConfig, Attachment
from devmem.config.base import blocks_of
from devmem.config.document import path_text
from devmem.config.filter_forms import dump_filter
from devmem.config.findings import Rule
from devmem.config.store import EmbeddingConfig, GuardCheckConfig, RerankerConfig, StoreDeclaration, only_model
from devmem.config.workflow import NodeConfig, Workflow
from devmem.errors import ConfigError, Finding
from devmem.model.caller import RETRIEVING, Stage
from devmem.models.http_client import is_in_process, service_address
from devmem.models.openai_embedding import DEFAULT_MODEL
from devmem.redaction import location_without_credentials
from devmem.workflow.graph import Graph
from devmem.workflow.stores import check_workflow

_ABOUT_FLOW: Final = (Rule.UNUSED_STORE, Rule.NEVER_READ, Rule.NEVER_WRITTEN, Rule.READ_BY_ALL, Rule.SHARED_FILE)
"""Rules of `devmem validate` that look at who reads and writes what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAccess:
    """Use of one store by one agent, with the limits in force."""

    node: str
    agent: str
    store: str
    reads_at: tuple[Stage, ...]
    writes_at: tuple[Stage, ...]
    top_k: int
    similarity_threshold: float | None
    """None lets every item through."""
    min_relevance: float | None
    """Of the attachment, or else of the store's `retrieval:` block."""
    min_trust: float
    where: Mapping[str, JsonValue]
    """Filter of the attachment in its JSON form; empty without one."""
    token_budget: int | None
    """Tokens that the agent is shown of all its stores together; None is no limit."""
    ttl: float | None
    """Seconds after which what the agent writes expires: of the attachment, or else of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlan:
    """A store, and who uses it."""

    name: str
    type: str
    location: str
    """As the workflow has it, without credentials; `this process` where nothing is kept."""
    embedding: str | None
    """Provider and model; None searches by words alone."""
    readers: tuple[str, ...]
    writers: tuple[str, ...]
    """Names of agents; `conversation` is the block that records runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A place outside of this process that data is sent to."""

    address: str
    """URL without credentials, or the name of what a plugin asks."""
    leaves: bool
    """Whether it is on another machine, as far as the address says."""
    data: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowPlan:
    """The reads, writes and requests of a run of a workflow."""

    file: str
    accesses: tuple[StoreAccess, ...]
    stores: tuple[StorePlan, ...]
    destinations: tuple[Destination, ...]
    not_run: tuple[str, ...]
    """Nodes that no edge leads to which devmem may follow."""
    findings: tuple[Finding, ...]
    """Findings of `devmem validate` about who reads and writes."""


def plan(file: str | os.PathLike[str]) -> WorkflowPlan:
    """Return what a run of a workflow will do; nothing is opened, asked or written.

    Raises:
        ConfigError: the file cannot be used.
    """
    checked = check_workflow(Path(file))
    if checked.workflow is None:
        raise ConfigError(checked.findings)
    return plan_of(checked.workflow, checked.findings)


def plan_of(workflow: Workflow, findings: tuple[Finding, ...] = ()) -> WorkflowPlan:
    """Return the plan of a workflow that was read; of its findings, those that a plan shows."""
    graph = Graph(workflow)
    accesses = tuple(accesses_of(workflow))
    return WorkflowPlan(
        file=str(workflow.file or "workflow"),
        accesses=accesses,
        stores=tuple(_store_plan(workflow, store, accesses) for store in workflow.memory),
        destinations=tuple(_destinations(workflow)),
        not_run=tuple(name for name in graph.order if graph.possible_sources(name) is None),
        findings=tuple(one for one in findings if one.rule in _ABOUT_FLOW),
    )


def accesses_of(workflow: Workflow) -> Iterator[StoreAccess]:
    """Yield the use of each store by each agent, in the order of the nodes."""
    stores = {store.name: store for store in workflow.memory}
    for node in workflow.nodes:
        for entry in node.config.memories if node.config is not None else ():
            if node.config is not None and entry.name in stores:
                yield _access(workflow, node, node.config, entry, stores[entry.name])


def _access(
    workflow: Workflow, node: NodeConfig, agent: AgentConfig, entry: Attachment, store: StoreDeclaration
) -> StoreAccess:
    retrieval = getattr(store.config, "retrieval", None)
    of_store = getattr(retrieval, "min_relevance", None)
    writes = entry.write and not getattr(store.config, "read_only", False)
    return StoreAccess(
        node=node.id,
        agent=agent.agent or node.id,
        store=entry.name,
        reads_at=_reads_at(agent, entry),
        writes_at=_passed(agent, entry.write_stage if writes else ()),
        top_k=entry.top_k,
        similarity_threshold=entry.similarity_threshold if entry.similarity_threshold > -1 else None,
        min_relevance=of_store if entry.min_relevance is None else entry.min_relevance,
        min_trust=entry.min_trust,
        where=dump_filter(entry.where) if entry.where is not None else {},
        token_budget=workflow.options(node).token_budget,
        ttl=getattr(store.config, "ttl", None) if entry.ttl is None else entry.ttl,
    )


def _store_plan(workflow: Workflow, store: StoreDeclaration, accesses: tuple[StoreAccess, ...]) -> StorePlan:
    of_store = [one for one in accesses if one.store == store.name]
    recorded = ["conversation"] if store.name in workflow.recording_stores else []
    written = [one.agent for one in of_store if one.writes_at]
    embedding: EmbeddingConfig | None = getattr(store.config, "embedding", None)
    provider = None if embedding is None else embedding.provider
    usual = DEFAULT_MODEL if provider == "openai" else only_model(provider or "")
    return StorePlan(
        name=store.name,
        type=store.type,
        location=_location(store),
        embedding=None if embedding is None else " ".join(filter(None, (embedding.provider, embedding.model or usual))),
        readers=tuple(dict.fromkeys(one.agent for one in of_store if one.reads_at)),
        writers=tuple(dict.fromkeys([*written, *recorded])),
    )


def _location(store: StoreDeclaration) -> str:
    paths = (getattr(store.config, key, None) for key in ("memory_path", "index_path"))
    written = next((path for path in paths if path is not None), None)
    places = [str(written)] if written is not None else list(_sends_to(store))
    return location_without_credentials(places[0]) if places else "this process"


def _sends_to(store: StoreDeclaration) -> tuple[str, ...]:
    return tuple(getattr(store.config, "sends_to", ()))


def _destinations(workflow: Workflow) -> Iterator[Destination]:
    """Yield where data goes that a run reads or writes, each place once, in the order of the workflow."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for address, what, whose in _sendings(workflow):
        kinds = found.setdefault(location_without_credentials(address), {})
        kinds.setdefault(what, {})[whose] = None
    for address, kinds in found.items():
        data = tuple(f"{what} {', '.join(names)}" for what, names in kinds.items())
        yield Destination(address=address, leaves=_is_elsewhere(address), data=data)


def _sendings(workflow: Workflow) -> Iterator[tuple[str, str, str]]:
    """Yield an address, the kind of data, and the agent or the store whose data it is."""
    for node in workflow.nodes:
        agent = node.config
        if agent is None or (service := _service_of(agent)) is None:
            continue
        yield service, "roles and inputs of", agent.agent or node.id
        for entry in agent.memories:
            if _reads_at(agent, entry):
                yield service, "recalled items of", entry.name
    attached = {entry.name for node in workflow.nodes if node.config for entry in node.config.memories}
    used = attached | {*workflow.recording_stores}
    for store in (store for store in workflow.memory if store.name in used):
        for address in _sends_to(store):
            yield address, "items and queries of", store.name
        # Token vectors, which no service makes, are left out.
        idle: tuple[str, ...] = getattr(store.config, "idle_models", ())
        for where, block in blocks_of(store.config):
            path = path_text(where)
            asks = not isinstance(block, RerankerConfig | GuardCheckConfig) or block.type == "llm"
            if not asks or path in idle or "tokens" in where:
                continue
            if isinstance(block, _ModelBlock) and (service := _service_of(block)) is not None:
                yield service, f"texts (for `{path}`) of", store.name


def _is_elsewhere(address: str) -> bool:
    """Whether an address is on another machine; one that cannot be read is taken for one."""
    if "://" not in address:
        return True
    try:
        host = urlsplit(address).hostname
    except ValueError:
        return True
    if not host:
        return "host=" in address and "host=/" not in address and "host=%2F" not in address
    if host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


@runtime_checkable
class _ModelBlock(Protocol):
    """A block of a configuration that names a model."""

    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def base_url(self) -> str | None: ...


def _service_of(block: _ModelBlock) -> str | None:
    """Return where the texts for a block's model are sent; None where it runs in this process."""
    if is_in_process(block.provider):
        return None
    return service_address(block.provider, block.base_url) or f"the service of the provider {block.provider!r}"


def _reads_at(agent: AgentConfig, entry: Attachment) -> tuple[Stage, ...]:
    """Return the stages at which an agent searches a store."""
    return _passed(agent, (entry.retrieve_stage or RETRIEVING) if entry.read else ())


def _passed(agent: AgentConfig, wanted: Container[Stage]) -> tuple[Stage, ...]:
    """Return those of some stages that an agent goes through, in their order."""
    skipped = {stage for stage, prompt in ((Stage.PLAN, agent.plan), (Stage.CRITIQUE, agent.critique)) if not prompt}
    return tuple(stage for stage in Stage if stage not in skipped and stage in wanted)
