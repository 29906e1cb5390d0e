"""A workflow: what its document says, and what reading it found out."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr

from devmem.config.agent import AgentConfig
from devmem.config.base import ConfigModel
from devmem.config.conditions import Condition, EdgeCondition
from devmem.config.conversation import ConversationRecording
from devmem.config.document import Path
from devmem.config.node_types import LiteralConfig, PassthroughConfig
from devmem.config.options import MemoryOptions
from devmem.config.place import Placed
from devmem.config.placeholders import Unresolved
from devmem.config.rules import Rule
from devmem.config.store import StoreDeclaration
from devmem.errors import ConfigError, Finding

_Thing = TypeVar("_Thing")


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class NodeConfig(Placed):
    """A step of the workflow; only agent nodes have settings that are read here."""

    model_config = ConfigDict(extra="ignore")

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


class Edge(ConfigModel):
    """An arrow between two nodes."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

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
    plugins: tuple[str, ...] = ()
    """Python modules to import first, because they register store types, rerankers or embedding providers."""
    memory: tuple[StoreDeclaration, ...] = ()
    """Stores that agents can attach."""
    memory_options: MemoryOptions = Field(default_factory=MemoryOptions)
    """How recalled items are put before a model."""
    conversation: ConversationRecording | None = None
    """Recording of what the agents say to each other."""
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
        return _named(self.memory, name, [store.name for store in self.memory], "store")

    def node(self, id: str) -> NodeConfig:  # noqa: A002 - the document's own word
        """Return the node with this id.

        Raises:
            KeyError: the workflow has no such node.
        """
        return _named(self.nodes, id, [node.id for node in self.nodes], "node")

    @property
    def is_devall(self) -> bool:
        """Whether the document has DevAll's form, with everything under `graph`."""
        return any(one.place.location[:1] == ("graph",) for one in (*self.memory, *self.nodes))

    def options(self, node: NodeConfig) -> MemoryOptions:
        """Return the memory options that hold for a node: the workflow's, with the node's own over them."""
        return self.memory_options.overridden_by(node.config.memory_options if node.config else None)

    def require_resolved(self, *prefix: str | int) -> None:
        """Make sure that every placeholder at or below a part of the document has its value.

        `prefix` is a path from the root, as `place.location` has it: `("memory", 0)`; none means the whole document.

        Raises:
            ConfigError: some variable is not set; each place is named.
        """
        wanted = tuple(prefix)
        found = [one for one in self.unresolved if _within(one.location, wanted)]
        if found:
            raise ConfigError([unresolved_finding(one, str(self.file or "")) for one in found])


def unresolved_finding(unresolved: Unresolved, file: str) -> Finding:
    """Return the finding about an unset variable."""
    message = unset_message(unresolved.names)
    return Finding(message=message, rule=Rule.UNSET_VARIABLE, path=unresolved.path, file=file, line=unresolved.line)


def unset_message(names: tuple[str, ...]) -> str:
    """Return the message that variables are not set, and where they could be."""
    what = f"the variable {names[0]} is" if len(names) == 1 else f"the variables {', '.join(names)} are"
    return f"{what} not set; set it under `vars`, in the environment or in a `.env` file beside the workflow"


def _within(location: Path, prefix: Path) -> bool:
    inside_graph = ("graph", *prefix)
    return location[: len(prefix)] == prefix or location[: len(inside_graph)] == inside_graph


def _named(things: Sequence[_Thing], name: str, names: list[str], kind: str) -> _Thing:
    if name not in names:
        raise KeyError(f"the workflow has no {kind} {name!r}")
    return things[names.index(name)]
