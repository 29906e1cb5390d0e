"""Settings of an agent node: its model, its prompts and its memories."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    SecretStr,
    WithJsonSchema,
    model_validator,
)

from devmem.config.base import ConfigModel, Duration, MemoryOptions, Pattern
from devmem.config.filter_forms import FilterForm
from devmem.model.caller import ALIASES, Stage
from devmem.model.filters import Filter
from devmem.model.interactions import ParticipantType

RecordedType: TypeAlias = Literal["agent", "tool", "knowledge", "llm"]
"""Kind of a callee whose calls can be recorded."""


class ViewConfig(ConfigModel):
    """The part of a global memory that an agent reads: by default its own questions and answers, the latest of them."""

    agent_id: str | None = Field(default=None, min_length=1)
    """Name of the agent whose interactions are seen; absent means the agent that asks."""
    all_agents: bool = False
    """See the interactions of all agents."""
    memory_types: tuple[ParticipantType, ...] = (ParticipantType.USER, ParticipantType.AGENT)
    """Counterparts whose exchanges with the agent are seen; add `tool`, `llm` or `knowledge` for calls of those."""
    order: Literal["chronological", "search"] = "chronological"
    """The latest interactions in their order, or those that fit the query best."""
    skip_current_trace: bool = True
    """Leave out the trace in progress, which the agent knows from its input."""
    summaries: bool = True
    """Put the last summary in the place of the records that it stands for."""
    max_tokens: int | None = Field(default=2000, ge=20)
    """Maximum number of estimated tokens that are shown of the latest interactions; the newest stay."""


_STAGE_SCHEMA: dict[str, Any] = {"type": "string", "enum": [*(stage.value for stage in Stage), *ALIASES]}


def _one_or_many(value: object) -> object:
    """Read `gen` as `[gen]`, and both null and `[]` as nothing said."""
    if isinstance(value, (str, Stage)):
        return (value,)
    return None if value == [] or value == () else value


def _each_once(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    return tuple(dict.fromkeys(stages))


Stages = Annotated[tuple[Stage, ...], AfterValidator(_each_once)]
_READ_SCHEMA = WithJsonSchema(
    {"anyOf": [_STAGE_SCHEMA, {"type": "array", "items": _STAGE_SCHEMA}, {"type": "null"}]}, mode="validation"
)
_WRITE_SCHEMA = WithJsonSchema(
    {"anyOf": [_STAGE_SCHEMA, {"type": "array", "items": _STAGE_SCHEMA, "minItems": 1}]}, mode="validation"
)


def _without_user(where: Filter | None) -> Filter | None:
    """Leave it to the run whose memories are read."""
    if where is not None and (where.scope.user is not None or "user" in (*where.scope_in, *where.unbound)):
        raise ValueError("`user` is named by whoever runs the workflow; leave it out here")
    return where


class Attachment(ConfigModel):
    """One store that an agent reads or writes, and when."""

    @model_validator(mode="before")
    @classmethod
    def _take_a_name(cls, value: object) -> object:
        """Read `- notes` as `- {name: notes}`."""
        return {"name": value} if isinstance(value, str) else value

    name: str = Field(min_length=1, title="Store")
    """Name of a store declared under `memory`."""
    retrieve_stage: Annotated[Stages | None, BeforeValidator(_one_or_many), _READ_SCHEMA] = Field(
        default=None, title="Retrieve at"
    )
    """Stages at which the store is searched; none named means all that retrieve: `pre`, `plan`, `gen`, `critique`."""
    write_stage: Annotated[Stages, BeforeValidator(_one_or_many), _WRITE_SCHEMA] = Field(
        default=(Stage.FINISHED,), title="Write at", json_schema_extra={"advanced": True}
    )
    """Stages at which what happened is written to the store."""
    top_k: int = Field(default=3, gt=0, le=10_000, title="Top K")
    """How many items one search returns at most."""
    similarity_threshold: float = Field(default=-1.0, ge=-1.0, le=1.0)
    """Lowest similarity, from -1 to 1, that an item must have to be returned; -1 lets every item through."""
    min_relevance: float | None = None
    """Least score of an item, before it is reranked; absent takes that of the store's `retrieval:` block."""
    relevance: bool = True
    """Show nothing where nothing in the store has to do with what was said, such as "ok"; `off` shows the nearest
    items all the same."""
    min_trust: float = Field(default=0.0, ge=0.0, le=1.0)
    """Least trust, from 0 to 1, that a recalled item must have; what users say has 1, agents 0.8, files 0.6, tools
    0.4."""
    where: Annotated[FilterForm | None, AfterValidator(_without_user)] = Field(
        default=None, json_schema_extra={"advanced": True}
    )
    """Condition that a recalled item must meet, such as `{metadata.topic: launch}`; its keys are those of a filter."""
    view: ViewConfig | None = Field(default=None, json_schema_extra={"advanced": True})
    """Part of a store of type `conversation` that this agent reads; absent takes the store's own `view`."""
    ttl: Duration | None = Field(default=None, json_schema_extra={"advanced": True})
    """How long what this agent writes is kept: seconds, or text such as `30d`, `12h`, `1h 30m`; absent takes the
    store's own `ttl`."""
    read: bool = True
    """Search the store for this agent."""
    write: bool = True
    """Write this agent's work to the store."""


ONLY_IN_CONFIG: Final = ("memories", "memory_options", "plan", "critique")
"""Keys of an agent that no system reads elsewhere in a node."""


def _or_extractive(provider: object) -> object:
    """Return the provider; a key that was left empty, as DevAll's editor writes it, names none."""
    return "extractive" if provider is None else provider


class AgentConfig(ConfigModel):
    """An agent's settings; keys that other systems read are left alone."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)
    foreign: ClassVar[Mapping[str, str]] = {
        "thinking": "",
        "input_mode": "",
        "memory": "",
        "tooling": "the agent has no tools here",
        "skills": "the agent has no skills here",
        "retry": "a request that fails is repeated by devmem's own rules; `retry` is not read",
    }

    provider: Annotated[str, BeforeValidator(_or_extractive)] = Field(default="extractive", min_length=1)
    """Who answers: `extractive` needs no model and quotes what was recalled, `openai` is any service that speaks its
    protocol."""
    model: str | None = Field(default=None, validation_alias=AliasChoices("model", "name"))
    """The provider's name of the model."""
    agent: str | None = Field(default=None, min_length=1, json_schema_extra={"advanced": True})
    """Name by which stores know the agent; absent takes the node's id. Nodes of the same name are one agent."""
    role: str | None = Field(default=None, validation_alias=AliasChoices("role", "prompt_template"))
    """System prompt: who the agent is and what it does."""
    base_url: str | None = Field(default=None, title="Base URL")
    """Address of the service."""
    api_key: SecretStr | None = Field(default=None, title="API Key")
    """Key for the service."""
    params: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Details of a call, handed to the provider as they are: `temperature`, `max_tokens` and so on."""
    memories: tuple[Attachment, ...] = ()
    """Stores that this agent reads or writes."""
    memory_options: MemoryOptions | None = None
    """Memory options of this agent alone; keys that are not set are taken from the workflow's `memory_options`."""
    auto_trace: bool = Field(default=True, json_schema_extra={"advanced": True})
    """Record this agent's calls, and those from within them, where the workflow has a `conversation` block."""
    collection_types: tuple[RecordedType, ...] | None = Field(default=None, json_schema_extra={"advanced": True})
    """Kinds of callees whose calls from within this agent are recorded; absent takes the `types` of `conversation`."""
    plan: str | None = None
    """Prompt of a planning call before the answer; without it the stage `plan` does not happen."""
    critique: str | None = None
    """Prompt of a reviewing call after the answer; without it the stage `critique` does not happen."""

    @model_validator(mode="before")
    @classmethod
    def _take_over_reflection(cls, data: object) -> object:
        """Read DevAll's `thinking: {type: reflection, config: {reflection_prompt: ...}}` as `critique`."""
        thinking = data.get("thinking") if isinstance(data, Mapping) and data.get("critique") is None else None
        if not isinstance(data, Mapping) or not isinstance(thinking, Mapping) or thinking.get("type") != "reflection":
            return data
        config = thinking.get("config")
        prompt = config.get("reflection_prompt") if isinstance(config, Mapping) else None
        return {**data, "critique": prompt} if isinstance(prompt, str) else data


class ChatConfig(ConfigModel):
    """A chat model that a store uses for its own work, such as summaries."""

    provider: str = Field(default="openai", min_length=1)
    """`openai` is any service that speaks its protocol, under any name with its `base_url`; `extractive` needs no
    model: the store's own methods do the work."""
    model: str | None = None
    """The provider's name of the model; all but `extractive` need it."""
    api_key: SecretStr | None = Field(default=None, title="API Key")
    """Key for the service; absent takes the environment's OPENAI_API_KEY."""
    base_url: str | None = Field(default=None, title="Base URL")
    """Address of the service; absent takes the environment's OPENAI_BASE_URL, then OpenAI's own."""
    params: dict[str, JsonValue] = Field(default_factory=dict, repr=False, json_schema_extra={"advanced": True})
    """Details of a call, handed to the service as they are: `temperature`, `max_tokens` and so on."""


_ALWAYS, _NEVER = "true", "always_false"


class ConditionConfig(ConfigModel):
    """Settings of a condition: a function's name, or keywords."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    name: str = _ALWAYS
    """For `function`: `true`, or a Python function of DevAll, which devmem does not call."""
    include: tuple[str, ...] = Field(default=(), validation_alias="any")
    """For `keyword`: texts of which one must occur."""
    exclude: tuple[str, ...] = Field(default=(), validation_alias="none")
    """For `keyword`: texts of which none may occur; this comes first."""
    regex: tuple[Pattern, ...] = ()
    """For `keyword`: regular expressions of which one may match instead of a text of `any`."""
    case_sensitive: bool = True
    """For `keyword`: whether upper and lower case differ."""


class EdgeCondition(ConfigModel):
    """Decides by the text of an edge's source whether the edge is followed."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["function", "keyword"] = "function"
    """Kind of condition; `function` is evaluated for `true` alone."""
    config: ConditionConfig = Field(default_factory=ConditionConfig)
    """Settings of the condition."""

    @model_validator(mode="before")
    @classmethod
    def _take_short_forms(cls, value: object) -> object:
        """Read `true`, null and the name of a function."""
        if value is None or value is True:
            return {}
        if value is False:
            return {"config": {"name": _NEVER}}
        return {"config": {"name": value}} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_keywords(self) -> Self:
        config = self.config
        if self.type == "keyword" and not (config.include or config.exclude or config.regex):
            raise ValueError("a condition of type `keyword` needs `any`, `none` or `regex`")
        return self

    @property
    def function(self) -> str | None:
        """Name of the Python function that would have to be called; None where the condition can be evaluated."""
        if self.type == "keyword" or self.config.name in (_ALWAYS, _NEVER):
            return None
        return self.config.name

    @property
    def may_hold(self) -> bool:
        """Whether there is a text of the source after which the edge is followed."""
        return self.type == "keyword" or self.config.name == _ALWAYS

    def holds(self, text: str) -> bool:
        """Whether the edge is followed after its source said `text`; never where a function would decide."""
        if self.type == "function":
            return self.may_hold
        config = self.config
        fold = str if config.case_sensitive else str.lower
        if any(word and fold(word) in fold(text) for word in config.exclude):
            return False
        flags = 0 if config.case_sensitive else re.IGNORECASE
        return (
            not (config.include or config.regex)
            or any(word and fold(word) in fold(text) for word in config.include)
            or any(re.search(pattern, text, flags) for pattern in config.regex)
        )


_SHORT_FORMS: dict[str, Any] = {
    "description": "true, the name of a function, or `type` and `config` of a condition.",
    "anyOf": [{"type": "boolean"}, {"type": "string"}, {"type": "null"}, {"type": "object"}],
}
Condition = Annotated[EdgeCondition, WithJsonSchema(_SHORT_FORMS, mode="validation")]


NODE_TYPES: Final = {
    "agent": "A step that a language model takes.",
    "literal": "Says a fixed text.",
    "passthrough": "Passes on what it gets.",
    "human": "Asks a person; devmem passes the input on.",
    "python": "Runs code; devmem passes the input on.",
    "subgraph": "Runs another graph; devmem checks it and passes the input on.",
    "loop_counter": "Ends a loop; devmem follows no loops and passes the input on.",
    "loop_timer": "Ends a loop; devmem follows no loops and passes the input on.",
}
"""Name and summary of each type."""
CARRIED_OUT: Final = frozenset({"agent", "literal", "passthrough"})
"""Types that devmem's runner carries out."""


class LiteralConfig(ConfigModel):
    """Settings of a node that says a fixed text."""

    model_config = ConfigDict(extra="ignore")

    content: str = Field(min_length=1)
    """The text."""
    role: Literal["user", "assistant"] = "user"
    """Who is meant to say it."""


class PassthroughConfig(ConfigModel):
    """Settings of a node that passes on what it gets."""

    model_config = ConfigDict(extra="ignore")

    only_last_message: bool = True
    """Pass on the last message alone, not all of them."""


class SubgraphConfig(ConfigModel):
    """Settings of a node that runs another graph."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["config", "file"]
    """Whether the graph stands here or has a file."""
    config: dict[Any, Any]
    """The graph's parts, or the `path` of its file."""


SETTINGS: Final[Mapping[str, type[LiteralConfig | PassthroughConfig]]] = {
    "literal": LiteralConfig,
    "passthrough": PassthroughConfig,
}
"""Settings by type of node."""
