"""Subjects of the rules: the parts of a workflow's document, each with the place where it stands."""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from devmem.config.agent import AgentConfig, Attachment, ChatConfig
from devmem.config.document import DocumentPath, Report
from devmem.config.store import EmbeddingConfig, StoreDeclaration
from devmem.config.workflow import ConversationRecording, Edge, NodeConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One pass over a document."""

    report: Report
    base_dir: pathlib.Path
    """Where relative paths start."""
    close: bool = False
    """Whether the rules of a close look are applied, instead of those of reading."""
    recalls_kept: float | None = 0.0
    """Seconds for which it is recorded what agents are shown; None permanently, 0 not at all."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a rule, and where it stands."""

    path: DocumentPath
    inspection: Inspection


@dataclass(frozen=True, slots=True)
class Written(Subject):
    """A mapping as it was written, before a model is made of it."""

    what: Literal["graph", "node", "agent", "settings", "edge", "condition", "condition_config"]
    """An agent, or other settings, are the `config` of a node, and a condition that of an edge."""
    value: Mapping[Any, Any]
    kind: object = None
    """Type of a node, placeholders put in."""


@dataclass(frozen=True, slots=True)
class Attachments(Subject):
    """The `memories` of an agent, placeholders put in."""

    entries: object
    declared: Collection[str]
    """Names of the stores that the agent may attach."""
    missing: Mapping[DocumentPath, tuple[str, ...]]
    """Unset variables by the place that waits for them."""


@dataclass(frozen=True, slots=True)
class Attached(Subject):
    """One attachment, with its agent and its store."""

    entry: Attachment
    agent: AgentConfig
    store: StoreDeclaration


@dataclass(frozen=True, slots=True)
class Store(Subject):
    """A store; `path` is that of its `config`."""

    declaration: StoreDeclaration


@dataclass(frozen=True, slots=True)
class Embedding(Subject):
    """An embedding model."""

    config: EmbeddingConfig
    tokens: bool
    """Whether it makes token vectors."""


@dataclass(frozen=True, slots=True)
class Chat(Subject):
    """A chat model."""

    config: AgentConfig | ChatConfig


@dataclass(frozen=True, slots=True)
class Graph(Subject):
    """The parts of a graph."""

    nodes: Sequence[NodeConfig]
    stores: Sequence[StoreDeclaration]
    edges: Sequence[tuple[DocumentPath, Edge]] = ()
    recorded: Sequence[str] = ()
    """Stores that are written beside the agents' writes."""


@dataclass(frozen=True, slots=True)
class Root(Subject):
    """A workflow, subgraphs included; `path` is that of the block `conversation` or `transaction`, where it has one."""

    nodes: Sequence[NodeConfig]
    stores: Sequence[StoreDeclaration] = ()
    recording: ConversationRecording | None = None
    transaction: bool = False
