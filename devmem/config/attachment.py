"""How an agent node uses a store: an entry of its `memories`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from devmem.config.base import ConfigModel
from devmem.config.duration import Duration
from devmem.config.view import ViewConfig
from devmem.model.stages import ALIASES, Stage

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
    min_trust: float = Field(default=0.0, ge=0.0, le=1.0)
    """Least trust, from 0 to 1, that a recalled item must have; what users say has 1, agents 0.8, files 0.6, tools
    0.4."""
    view: ViewConfig | None = Field(default=None, json_schema_extra={"advanced": True})
    """Part of a store of type `conversation` that this agent reads; absent takes the store's own `view`."""
    ttl: Duration | None = Field(default=None, json_schema_extra={"advanced": True})
    """How long what this agent writes is kept: seconds, or text such as `30d`, `12h`, `1h 30m`; absent takes the
    store's own `ttl`."""
    read: bool = True
    """Search the store for this agent."""
    write: bool = True
    """Write this agent's work to the store."""
