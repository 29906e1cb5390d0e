"""A workflow: what its document says, and what reading it found out."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr

from devmem.config.agent import AgentConfig, Condition, EdgeCondition, LiteralConfig, PassthroughConfig, RecordedType
from devmem.config.base import ConfigModel, Duration, MemoryOptions, Pattern, Placed, StoreTypes
from devmem.config.placeholders import Unresolved, has_placeholder
from devmem.config.store import StoreDeclaration
from devmem.errors import ConfigError, Finding, PluginError
from devmem.model.interactions import Interaction, InteractionKind, ParticipantType
from devmem.text.files import expanded


class CopyRule(ConfigModel):
    """Records that are copied into another store as well, for agents that have a memory of their own."""

    into: str = Field(min_length=1)
    """Name of the store that takes the copies."""
    agents: tuple[str, ...] = ()
    """Names of agents whose interactions are copied; none named means all."""
    memory_types: tuple[ParticipantType, ...] = (ParticipantType.USER, ParticipantType.AGENT)
    """Counterparts whose exchanges with the agents are copied."""

    def admits(self, record: Interaction) -> bool:
        """Whether a record is copied; summaries are not."""
        if record.kind is InteractionKind.SUMMARY:
            return False
        sides = (record.source, record.target)
        return any(
            one.type is ParticipantType.AGENT
            and (not self.agents or one.name in self.agents)
            and other.type in self.memory_types
            for one, other in (sides, sides[::-1])
        )


class ConversationRecording(ConfigModel):
    """Recording of each run: the store that takes it, and its kinds of calls."""

    store: str = Field(min_length=1)
    """Name of the store of type `conversation` that takes the records."""
    active: bool = True
    """Record; without it the block has no effect."""
    types: tuple[RecordedType, ...] = ("agent", "tool", "knowledge")
    """Kinds of callees whose calls are recorded; `llm` adds each prompt of a chat model with its answer."""
    language: Literal["en", "zh"] = "en"
    """Language in which the records are worded."""
    max_content_length: int = Field(default=20_000, ge=100, json_schema_extra={"advanced": True})
    """Maximum number of characters of one record; more are cut with a mark."""
    secret_patterns: tuple[Pattern, ...] = Field(default=(), json_schema_extra={"advanced": True})
    """Regular expressions; what they match is not recorded, beside what looks like a key or a password."""
    max_pending_bytes: int = Field(default=256 << 20, ge=10_000, json_schema_extra={"advanced": True})
    """Maximum number of bytes that wait for the store; beyond it new records are counted, and not kept."""
    copies: tuple[CopyRule, ...] = ()
    """Rules by which records are copied into other stores."""


class RecallRecording(ConfigModel):
    """Log of what agents are shown, for `devmem log --shown` and `devmem web`; `true` stands for its defaults."""

    contents: Literal["text", "hash"] = "text"
    """Keep blocks and queries as text, or their hashes alone; ids, scores and times are kept always."""
    retention: Duration | None = 30 * 86_400.0
    """Delete older items; null keeps everything."""


_Thing = TypeVar("_Thing")


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class NodeConfig(Placed):
    """A step of the workflow; only agent nodes have settings that are read here."""

    model_config = ConfigDict(extra="ignore")
    foreign: ClassVar[Mapping[str, str]] = {
        "log_output": "",
        "position": "",
        "context_window": "a node keeps no earlier messages here; use a memory instead of `context_window`",
        "dynamic": "the node runs once; `dynamic` is not carried out",
    }

    id: str = Field(min_length=1, title="ID")
    """Name of the node; unique in the workflow."""
    type: str = Field(min_length=1)
    """Kind of node; `agent` nodes have memories."""
    description: str | None = None
    """Purpose of the node."""
    config: AgentConfig | None = None
    """Settings of an agent; other types' settings are left to whoever runs them."""
    _settings: LiteralConfig | PassthroughConfig | Subgraph | None = PrivateAttr(default=None)

    @property
    def settings(self) -> LiteralConfig | PassthroughConfig | Subgraph | None:
        """Settings of a node of the type `literal`, `passthrough` or `subgraph`; None for any other."""
        return self._settings

    def set_settings(self, settings: LiteralConfig | PassthroughConfig | Subgraph | None) -> None:
        """Take the settings that stand in the place of an agent's; for whoever reads the node."""
        self._settings = settings


class Edge(Placed):
    """An arrow between two nodes."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)
    foreign: ClassVar[Mapping[str, str]] = {
        "process": "the output is passed on unchanged; `process` is not carried out",
        "dynamic": "the target runs once; `dynamic` is not carried out",
        "keep_message": "nothing is kept between runs of a node; `keep_message` is not read",
        "clear_context": "nothing is kept between runs of a node; `clear_context` is not read",
        "clear_kept_context": "nothing is kept between runs of a node; `clear_kept_context` is not read",
    }

    source: str = Field(alias="from", title="From")
    """ID of the node whose output goes on."""
    target: str = Field(alias="to", title="To")
    """ID of the node that receives it."""
    trigger: bool = True
    """Whether the target runs because of this edge."""
    carry_data: bool = True
    """Whether the target gets the output."""
    condition: Condition = Field(default_factory=EdgeCondition)
    """Follow the edge only where this holds of the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subgraph:
    """The graph of a `subgraph` node, read and checked; devmem does not run it."""

    file: pathlib.Path | None = None
    """The file that it was read from; None when it stands in the node."""
    memory: tuple[StoreDeclaration, ...] = ()
    """Stores of its own, beside those of the graph around it."""
    start: tuple[str, ...] = ()
    """IDs of the nodes that get the subgraph's input."""
    nodes: tuple[NodeConfig, ...] = ()
    edges: tuple[Edge, ...] = ()


class WorkflowDocument(ConfigModel):
    """A workflow as its YAML file says it; DevAll's files have all but `version` and `vars` under `graph`."""

    version: str = "0.0.0"
    """Version of the workflow, for people."""
    vars: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Values for placeholders such as `${NAME}`, which win over the environment's."""
    plugins: Annotated[tuple[str, ...], BeforeValidator(_one_or_many)] = ()
    """Python modules to import first, because they register store types, rerankers or embedding providers."""
    memory: tuple[StoreDeclaration, ...] = ()
    """Stores that agents can attach."""
    memory_options: MemoryOptions = Field(default_factory=MemoryOptions)
    """How recalled items are put before a model."""
    conversation: ConversationRecording | None = None
    """Recording of what the agents say to each other."""
    record_recalls: RecallRecording | bool = False
    """Log of what agents are shown at each stage; true, false or its settings."""
    transaction: bool = False
    """Commit what a run writes to its stores at the end, as a whole, and drop it when the run fails; until then only
    the run itself sees it."""
    start: Annotated[tuple[str, ...], BeforeValidator(_one_or_many)] = ()
    """IDs of the nodes that get the workflow's input; none named means those that no edge leads to."""
    nodes: tuple[NodeConfig, ...] = ()
    """Steps of the workflow."""
    edges: tuple[Edge, ...] = ()
    """Which node's output goes to which node."""


class Workflow(WorkflowDocument):
    """A workflow that was read and checked."""

    file: pathlib.Path | None = None
    """The file it was read from; None when it came as text."""
    base_dir: pathlib.Path = Field(default_factory=pathlib.Path)
    """Where relative paths in it start: the file's folder."""
    warnings: tuple[Finding, ...] = ()
    """Warnings and notes: the workflow can be run, but something in it is probably not meant as it stands."""
    unresolved: tuple[Unresolved, ...] = ()
    """Values whose placeholders nothing sets; they hold the placeholder's text."""

    def store(self, name: str) -> StoreDeclaration:
        """Return the store of this name.

        Raises:
            KeyError: the workflow declares no such store.
        """
        return _named({store.name: store for store in self.memory}, name, "store")

    def node(self, id: str) -> NodeConfig:  # noqa: A002 - the document's own word
        """Return the node with this id.

        Raises:
            KeyError: the workflow has no such node.
        """
        return _named({node.id: node for node in self.nodes}, id, "node")

    @property
    def is_devall(self) -> bool:
        """Whether the document has DevAll's form, with everything under `graph`."""
        return any(one.place.location[:1] == ("graph",) for one in (*self.memory, *self.nodes))

    @property
    def recording_stores(self) -> list[str]:
        """Names of the stores that the `conversation` block writes to; empty without an active one."""
        block = self.conversation
        return [block.store, *(rule.into for rule in block.copies)] if block is not None and block.active else []

    def options(self, node: NodeConfig) -> MemoryOptions:
        """Return the memory options that hold for a node: the workflow's, with the node's own over them."""
        return self.memory_options.overridden_by(node.config.memory_options if node.config else None)

    def require_resolved(self, *prefix: str | int) -> None:
        """Make sure that every placeholder at or below a part of the document has its value.

        `prefix` is a path from the root, as `place.location` has it: `("memory", 0)`; none means the whole document.

        Raises:
            ConfigError: some variable is not set; each place is named.
        """
        starts = [tuple(prefix), ("graph", *prefix)]
        found = [one for one in self.unresolved if any(one.location[: len(each)] == each for each in starts)]
        if found:
            raise ConfigError([one.finding(str(self.file or "")) for one in found])


def written_stores(stores: Sequence[StoreDeclaration], nodes: Sequence[NodeConfig]) -> list[StoreDeclaration]:
    """Return the stores that agents write to, in their order."""
    attached = (entry for node in nodes if node.config is not None for entry in node.config.memories)
    written = {entry.name for entry in attached if entry.write}
    return [store for store in stores if store.name in written and not getattr(store.config, "read_only", False)]


def base_dir_of(store: StoreDeclaration, base_dir: pathlib.Path) -> pathlib.Path:
    """Return the folder at which the paths of a store start: that of the workflow, `base_dir`.

    A store of files that a DevAll document declares starts at the working directory, as in DevAll, where its sources
    are there and not beside the workflow.
    """
    if store.place.location[:1] != ("graph",):
        return base_dir
    named = [pathlib.Path(path) for path in source_paths(store)]
    relative = [path for path in named if not path.is_absolute()]
    if any((base_dir / path).exists() for path in relative) or not any(path.exists() for path in relative):
        return base_dir
    return pathlib.Path.cwd()


def source_paths(store: StoreDeclaration) -> list[str]:
    """Return the paths of the files and folders that a store reads; none of a store that is not made from files."""
    sources = getattr(store.config, "file_sources", None) or ()
    found = [getattr(source, "path", None) for source in sources]
    named = [path for path in found if isinstance(path, str) and not has_placeholder(path)]
    return [str(expanded(path)) for path in named]


def _named(things: Mapping[str, _Thing], name: str, kind: str) -> _Thing:
    if name not in things:
        raise KeyError(f"the workflow has no {kind} {name!r}")
    return things[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One type, and the model of its `config:` block."""

    value: str
    """Value of `type`."""
    summary: str
    """One line for people."""
    model: type[ConfigModel] | None
    """None when the type's package cannot be used; the summary then says why."""


def variants(model: type[BaseModel], store_types: StoreTypes | None) -> tuple[Variant, ...]:
    """Return the variants of a model whose `config` depends on its `type`; none for any other model."""
    if model is NodeConfig:
        return (Variant(value="agent", summary="A step that a language model takes.", model=AgentConfig),)
    if model is not StoreDeclaration or store_types is None:
        return ()
    found: list[Variant] = []
    for name in store_types.names():
        try:
            found.append(Variant(value=name, summary=store_types.summary(name), model=store_types.config_model(name)))
        except PluginError as error:
            found.append(Variant(value=name, summary=str(error), model=None))
    return tuple(found)


ROOT_ONLY: Final = ("version", "vars")
"""Parts that stand at the root in DevAll's documents too."""
