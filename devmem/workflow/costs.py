"""Estimates of the models' work in a run: calls and tokens, never less than what the run is likely to need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from devmem.config.agent import AgentConfig, Attachment, LiteralConfig, PassthroughConfig
from devmem.config.base import ConfigModel
from devmem.config.store import EmbeddingConfig, RerankerConfig, StoreDeclaration, only_model
from devmem.config.workflow import NodeConfig, Workflow
from devmem.model.caller import RETRIEVING, Stage
from devmem.models.http_client import is_in_process, service_address
from devmem.models.openai_embedding import DEFAULT_MODEL
from devmem.redaction import location_without_credentials
from devmem.text.analysis import estimate_tokens
from devmem.workflow.graph import Graph
from devmem.workflow.manager import MAX_TURNS

Moment: TypeAlias = Literal["write", "search", "never"]
"""When a store asks a model: with each write, with each search, or in no run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """Sizes that no workflow says, in tokens."""

    input_tokens: int = 200
    """Input of the workflow."""
    answer_tokens: int = 300
    """One answer of a chat model."""
    item_tokens: int = 100
    """One recalled item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that is asked."""

    kind: Literal["chat", "embedding"]
    provider: str
    name: str | None
    address: str | None
    """Address of the service, without credentials; None where there is none, or only a plugin knows it."""

    @property
    def in_process(self) -> bool:
        """Whether it runs here, so that no text leaves."""
        return is_in_process(self.provider)


@dataclass(slots=True, kw_only=True)
class ModelUse:
    """The work of one model in a run."""

    model: Model
    purposes: list[str] = field(default_factory=list)
    calls: int = 0
    """Maximum number of requests; an embedding call is one text or one batch of them."""
    tokens_in: int = 0
    tokens_out: int = 0

    def add(self, purpose: str, calls: int, tokens_in: int, tokens_out: int = 0) -> None:
        """Count some calls."""
        if purpose not in self.purposes:
            self.purposes.append(purpose)
        self.calls += calls
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out


@runtime_checkable
class _ModelBlock(Protocol):
    """A block of a configuration that names a model."""

    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def base_url(self) -> str | None: ...


def model_of(block: _ModelBlock) -> Model:
    """Return the model that a block names."""
    address = service_address(block.provider, block.base_url)
    embeds = isinstance(block, EmbeddingConfig)
    usual = DEFAULT_MODEL if embeds and block.provider == "openai" else only_model(block.provider)
    return Model(
        kind="embedding" if embeds else "chat",
        provider=block.provider,
        name=block.model or usual,
        address=address and location_without_credentials(address),
    )


def models_of(store: StoreDeclaration) -> Iterator[tuple[str, Moment, _ModelBlock]]:
    """Yield the models of a store: the path of the block, when the model is asked, and the block.

    Token vectors, which no service makes, are left out.
    """
    said: Mapping[str, Moment] = getattr(store.config, "model_calls", {})
    for path, block in _blocks(store.config, ""):
        moment: Moment = "search" if isinstance(block, RerankerConfig) else "write"
        yield path, said.get(path, moment), block


def _prompt_tokens(store: StoreDeclaration, path: str) -> int:
    """Return the tokens of the instructions that a store sends to a model with each call, as far as it says."""
    said: Mapping[str, int] = getattr(store.config, "model_prompts", {})
    return said.get(path, 0)


def _blocks(config: ConfigModel, path: str) -> Iterator[tuple[str, _ModelBlock]]:
    for key, value in config:
        if not isinstance(value, ConfigModel) or key == "tokens":
            continue
        inner = f"{path}{key}"
        if isinstance(value, RerankerConfig) and value.type != "llm":
            continue
        if isinstance(value, _ModelBlock):
            yield inner, value
        else:
            yield from _blocks(value, f"{inner}.")


def _depth(block: _ModelBlock, top_k: int) -> int:
    """Return the number of items that a model reads in one search."""
    counts = (getattr(block, key, None) for key in ("depth", "candidates"))
    return next((count for count in counts if isinstance(count, int)), top_k)


def stages_of(agent: AgentConfig) -> tuple[Stage, ...]:
    """Return the stages that an agent goes through, in their order."""
    skipped = {stage for stage, prompt in ((Stage.PLAN, agent.plan), (Stage.CRITIQUE, agent.critique)) if not prompt}
    return tuple(stage for stage in Stage if stage not in skipped)


def reads_at(agent: AgentConfig, entry: Attachment) -> tuple[Stage, ...]:
    """Return the stages at which an agent searches a store."""
    wanted = (entry.retrieve_stage or RETRIEVING) if entry.read else ()
    return tuple(stage for stage in stages_of(agent) if stage in wanted)


def writes_at(agent: AgentConfig, entry: Attachment) -> tuple[Stage, ...]:
    """Return the stages at which an agent writes to a store."""
    wanted = entry.write_stage if entry.write else ()
    return tuple(stage for stage in stages_of(agent) if stage in wanted)


class RunEstimate:
    """Requests to the models of a workflow in one run, in which every edge is followed that may be."""

    def __init__(self, workflow: Workflow, assumed: Assumed) -> None:
        self._workflow, self._assumed = workflow, assumed
        self._stores = {store.name: store for store in workflow.memory}
        self._uses: dict[Model, ModelUse] = {}
        self.not_run: list[str] = []
        """Ids of the nodes that no edge leads to which may be followed."""
        self._count()

    def uses(self) -> tuple[ModelUse, ...]:
        """Return the work of each model."""
        return tuple(self._uses.values())

    def _count(self) -> None:
        graph = Graph(self._workflow)
        said: dict[str, tuple[int, ...]] = {}
        for name in graph.order:
            node, sources = self._workflow.node(name), graph.possible_sources(name)
            if sources is None:
                self.not_run.append(name)
                continue
            asked = (self._assumed.input_tokens,) if graph.is_start(name) else ()
            inputs = (*asked, *(size for source in sources for size in said.get(source, ())))
            said[name] = self._passed_on(node, inputs)
            if node.config is not None:
                self._count_agent(node.id, node.config, inputs)

    def _passed_on(self, node: NodeConfig, inputs: tuple[int, ...]) -> tuple[int, ...]:
        """Return the sizes of the messages that a node says, as the runner has them."""
        if node.config is not None:
            return (self._answer(node.config),)
        if isinstance(node.settings, LiteralConfig):
            return (estimate_tokens(node.settings.content),)
        if node.type != "passthrough":
            return (sum(inputs),)
        settings = node.settings if isinstance(node.settings, PassthroughConfig) else PassthroughConfig()
        return inputs[-1:] if settings.only_last_message else inputs

    def _answer(self, agent: AgentConfig) -> int:
        limits = (agent.params.get(key) for key in ("max_tokens", "max_completion_tokens"))
        return min([self._assumed.answer_tokens, *(limit for limit in limits if isinstance(limit, int) and limit > 0)])

    def _count_agent(self, node: str, agent: AgentConfig, inputs: Sequence[int]) -> None:
        name, answer, asked = agent.agent or node, self._answer(agent), sum(inputs)
        chat, prompts = self._use(agent), list[tuple[int, int]]()
        for stage, words in ((Stage.PLAN, agent.plan), (Stage.GEN, None), (Stage.CRITIQUE, agent.critique)):
            if stage not in stages_of(agent):
                continue
            # The plan goes before the answer, and the draft before its review.
            earlier = answer if stage is Stage.CRITIQUE or (stage is Stage.GEN and agent.plan) else 0
            prompt = estimate_tokens(f"{agent.role or ''} {words or ''}") + asked + earlier
            prompts.append((prompt + self._recalled(node, agent, stage), answer))
            chat.add(f"agent {name}", 1, *prompts[-1])
        self._count_searches(agent, inputs)
        for entry in agent.memories:
            writes = writes_at(agent, entry)
            sizes = [asked + (0 if stage is Stage.PRE else answer) for stage in writes]
            self._count_writes(entry.name, sizes)
        self._count_records(agent, [(asked, answer)], prompts)

    def _recalled(self, node: str, agent: AgentConfig, stage: Stage) -> int:
        """Return the tokens of the block that an agent is shown at a stage."""
        stages = stages_of(agent)
        before = set(stages[: stages.index(stage) + 1])
        shown = sum(entry.top_k for entry in agent.memories if before & {*reads_at(agent, entry)})
        budget = self._workflow.options(self._workflow.node(node)).token_budget
        tokens = shown * self._assumed.item_tokens
        return tokens if budget is None else min(tokens, budget)

    def _count_searches(self, agent: AgentConfig, inputs: Sequence[int]) -> None:
        """Count the questions: each turn is embedded once a model, and searched for at each stage of each store."""
        turns = list(inputs)[-MAX_TURNS:]
        embedded: set[Model] = set()
        for entry in agent.memories:
            stages = reads_at(agent, entry)
            if not stages or entry.name not in self._stores:
                continue
            for path, moment, block in models_of(self._stores[entry.name]):
                purpose = f"store {entry.name}: {path}"
                if isinstance(block, EmbeddingConfig):
                    again = model_of(block) in embedded
                    self._use(block).add(purpose, 0 if again else len(turns), 0 if again else sum(turns))
                    embedded.add(model_of(block))
                elif moment == "search":
                    depth = _depth(block, entry.top_k)
                    searches = len(turns) * len(stages)
                    asked = sum(turns) * len(stages) + searches * depth * self._assumed.item_tokens
                    self._use(block).add(purpose, searches, asked, searches * self._assumed.answer_tokens)

    def _count_writes(self, store: str, sizes: Sequence[int]) -> None:
        if not sizes or store not in self._stores:
            return
        for path, moment, block in models_of(self._stores[store]):
            if moment == "write":
                said = 0 if isinstance(block, EmbeddingConfig) else len(sizes) * self._assumed.answer_tokens
                prompts = len(sizes) * _prompt_tokens(self._stores[store], path)
                self._use(block).add(f"store {store}: {path}", len(sizes), sum(sizes) + prompts, said)

    def _count_records(
        self, agent: AgentConfig, said: Sequence[tuple[int, int]], prompts: Sequence[tuple[int, int]]
    ) -> None:
        """Count what a `conversation` block records of an agent, each call with its answer."""
        block = self._workflow.conversation
        if block is None or not agent.auto_trace:
            return
        types = block.types if agent.collection_types is None else agent.collection_types
        calls = [*(said if "agent" in block.types else ()), *(prompts if "llm" in types else ())]
        for store in self._workflow.recording_stores:
            self._count_writes(store, [size for call in calls for size in call])

    def _use(self, block: _ModelBlock) -> ModelUse:
        model = model_of(block)
        return self._uses.setdefault(model, ModelUse(model=model))


DEFAULT_SIZES: Final = Assumed()
"""Sizes of a short chat."""
