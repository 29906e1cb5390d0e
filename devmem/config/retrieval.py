"""How a store's items are found and ranked, as the `retrieval:` block of a store says it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, JsonValue, SecretStr, field_validator, model_validator
from pydantic_core.core_schema import ValidationInfo

from devmem.config.base import ConfigModel
from devmem.config.embedding import EmbeddingConfig

WITHIN_SEARCH: Final = ("late_interaction", "none")
"""Rerankers that are part of the search: nothing reads the hits again."""
_KEYS: Final = {
    **dict.fromkeys(WITHIN_SEARCH, frozenset[str]()),
    "cross_encoder": frozenset({"depth", "model_path"}),
    "llm": frozenset({"depth", "provider", "model", "api_key", "base_url", "timeout", "params"}),
}
"""Which keys our own rerankers read beside `type`; a plugin may read any."""


class RerankerConfig(ConfigModel):
    """Reranker of the best candidates."""

    type: str = "late_interaction"
    """`late_interaction` compares token by token, with what the embedding model made already; `none` does without;
    after that comparison, `cross_encoder` reads question and text together, `llm` asks a chat model, and a plugin's
    name has the plugin read them."""
    depth: int = Field(default=20, ge=1)
    """Maximum number of hits that a `cross_encoder`, an `llm` or a plugin reads."""
    model_path: Path | None = None
    """Folder with the files of a sentence-transformers cross encoder, for `cross_encoder`."""
    provider: str = "openai"
    """Chat provider, for `llm`."""
    model: str | None = None
    """Name of the chat model, for `llm`."""
    api_key: SecretStr | None = None
    """Key of the chat service, for `llm`; None takes the environment's."""
    base_url: str | None = None
    """Address of an OpenAI-compatible service, for `llm`."""
    timeout: float = Field(default=10.0, gt=0)
    """Seconds that a chat service may take for one request, for `llm`; one that fails is asked once more."""
    params: dict[str, JsonValue] = Field(default_factory=dict)
    """Further settings of a plugin; for `llm`, parameters of its requests."""

    @field_validator("*", mode="after")
    @classmethod
    def _refuse_what_is_not_read(cls, value: object, info: ValidationInfo) -> object:
        """Refuse a key of another type; its default, as a form writes it, does no harm."""
        name, kind = info.field_name or "", info.data.get("type")
        if not isinstance(kind, str) or kind not in _KEYS or name in _KEYS[kind]:
            return value
        if value != cls.model_fields[name].get_default(call_default_factory=True, validated_data={}):
            readers = " and ".join(f"`type: {each}`" for each, keys in _KEYS.items() if name in keys)
            raise ValueError(f"`{name}` is for {readers}; `type: {kind}` does not read it")
        return value

    @model_validator(mode="after")
    def _ask_for_what_is_needed(self) -> Self:
        if self.type == "cross_encoder" and self.model_path is None:
            raise ValueError("`type: cross_encoder` needs `model_path`, the folder of a model; nothing is downloaded")
        if self.type == "llm" and self.provider == "extractive":
            raise ValueError("`type: llm` needs a chat model; `provider: extractive` gives no grades")
        if self.type == "llm" and not self.model:
            raise ValueError("`type: llm` needs `model`, the name of a chat model")
        return self

    @property
    def reads_hits(self) -> bool:
        """Whether it reads the texts of the best hits; what the search does itself does not."""
        return self.type not in WITHIN_SEARCH


def _off(value: object) -> object:
    """Take YAML's false for `off`, which is how YAML 1.1 reads it."""
    return "off" if value is False else value


class RetrievalConfig(ConfigModel):
    """How a store's items are ranked; the defaults are those that were measured."""

    reranker: RerankerConfig = Field(default_factory=RerankerConfig)
    """Reranking of the best candidates."""
    tokens: EmbeddingConfig | None = Field(default=None, json_schema_extra={"advanced": True})
    """The model whose token vectors are compared, where it is another than that of the `embedding:` block: a service
    has none, `minilm` has them for English and `e5` for any language. None takes the embedding model's own."""
    context: bool = True
    """Let the turns before and after, the conversation, and who speaks lend their score."""
    time: Annotated[Literal["boost", "narrow", "off"], BeforeValidator(_off)] = "boost"
    """Effect of a time in the question ("last week", "in May 2023", "上周"): items of that time score higher (`boost`),
    nothing else is found (`narrow`), or none (`off`)."""
    recency: float = Field(default=0.02, ge=0)
    """Score that a new item gains over an old one; a good match scores about 0.3 more than a bad one."""
    half_life_days: float = Field(default=30, gt=0)
    """Days after which half of that gain is left."""
    importance: float = Field(default=0, ge=0)
    """Score that an item with the metadata `importance: 1` gains over one with 0."""
    diversity: float = Field(default=0, ge=0, le=1)
    """0 gives the best items, however alike; towards 1 each differs more from those before it."""
    collapse: bool = True
    """Return only the best of items that say the same on the same day."""
    min_relevance: float | None = None
    """Least score of a hit before it is reranked, for questions that nothing answers; 0.5 leaves out most of what is
    unrelated, absent leaves out nothing."""
    candidates: int = Field(default=200, ge=10, json_schema_extra={"advanced": True})
    """Number of candidates by words, and by meaning."""

    @model_validator(mode="after")
    def _need_tokens(self) -> Self:
        if self.tokens is not None and not self.late_interaction:
            raise ValueError("`reranker: {type: none}` compares no tokens; leave `tokens` out, or the reranker")
        return self

    @property
    def late_interaction(self) -> bool:
        """Whether hits are compared token by token; a reranker reads the best of what that found."""
        return self.reranker.type != "none"
