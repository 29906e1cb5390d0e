"""A store as the workflow declares it: an entry of `memory`, with the blocks that store types share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    SecretStr,
    SerializeAsAny,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ValidationInfo

from devmem.config.base import (
    KNOWN_HOME,
    ConfigModel,
    Declared,
    Duration,
    Placed,
    ReadBy,
    offered,
    unknown_name,
)
from devmem.encryption.keys import StoreKey, read_key_file, read_key_variable
from devmem.errors import PluginError
from devmem.model.fields import is_path
from devmem.model.items import SourceKind
from devmem.text.files import expanded


def _one_line(value: str) -> str:
    # The name heads the store's section in the text that a model is shown.
    if value != value.strip() or not value.isprintable():
        raise ValueError("expected text on one line, without blanks around it")
    return value


def _usable_type(kind: str, info: ValidationInfo) -> str:
    if kind and isinstance(info.context, Declared):
        if kind not in (possible := info.context.types.names()):
            raise unknown_name("store type", possible)
        try:
            info.context.types.config_model(kind)
        except PluginError as error:
            raise PydanticCustomError("broken_plugin", "{error}", {"error": str(error)}) from error
    return kind


class StoreDeclaration(Placed):
    """A named memory: of which type it is, and that type's settings."""

    name: Annotated[str, AfterValidator(_one_line)] = Field(min_length=1)
    """Name by which agents attach the store; unique in the workflow."""
    type: Annotated[str, AfterValidator(_usable_type)] = Field(min_length=1)
    """Kind of store, which decides what is kept and how it is found."""
    config: SerializeAsAny[ConfigModel] = Field(default_factory=ConfigModel)
    """Settings of the type; none means the type's defaults."""

    @field_validator("config", mode="wrap")
    @classmethod
    def _of_type(cls, value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
        """Validate the settings by the model of the type, where a document declares the store."""
        if not isinstance(info.context, Declared) or isinstance(value, ConfigModel):
            return handler(value)
        if not isinstance(kind := info.data.get("type"), str):
            return ConfigModel()  # the type is refused
        place = replace(info.context.place, path=f"{info.context.place.path}.config")
        model = info.context.types.config_model(kind)
        return model.model_validate({} if value is None else value, context=replace(info.context, place=place))


ChunkStrategy = Literal["average", "weighted", "first"]


class EmbeddingParams(ConfigModel):
    """The provider's details; each says which providers read it."""

    use_chunking: bool = False
    """Embed a text longer than `max_length` in pieces and combine their vectors, instead of cutting it off."""
    chunk_strategy: ChunkStrategy = "average"
    """How the pieces' vectors are combined: their mean, a mean in which earlier pieces weigh more (1, 1/2, 1/3, ...),
    or the first piece alone."""
    max_length: int = Field(default=8191, ge=16)
    """Characters of a text that reach the model at once."""
    model_path: Annotated[Annotated[Path, KNOWN_HOME] | None, ReadBy(("minilm", "e5", "onnx", "local"))] = None
    """Folder with the model's files (`local`, `onnx`: required; `minilm`, `e5`: instead of the installed package)."""
    device: Annotated[str, ReadBy(("local",))] = "cpu"
    """Device that `local` runs on, as torch names it."""
    dimensions: Annotated[int | None, ReadBy(("openai", "given"))] = Field(default=None, gt=0)
    """Length of the vectors to ask `openai` for, or that `given` ones have; None leaves it to the model."""
    batch_size: int = Field(default=64, gt=0)
    """Texts in one call of the model."""
    timeout: Annotated[float, ReadBy(("openai",))] = Field(default=30.0, gt=0)
    """Seconds that `openai` may take for one request."""
    max_retries: Annotated[int, ReadBy(("openai",))] = Field(default=5, ge=0)
    """How often `openai` is asked again after 429, 5xx or a timeout, waiting longer each time."""
    threads: Annotated[int, ReadBy(("minilm", "e5", "onnx"))] = Field(default=1, ge=1)
    """Threads that `minilm`, `e5` and `onnx` use for a question or a batch; more are slower on a busy machine."""
    workers: Annotated[int | None, ReadBy(("minilm", "e5", "onnx"))] = Field(default=None, ge=1)
    """Batches that `minilm`, `e5` and `onnx` compute at a time; None computes one on each processor."""
    pooling: Annotated[Literal["auto", "mean", "cls"], ReadBy(("onnx",))] = "auto"
    """How `onnx` makes a text's vector of its tokens': their mean, or that of the first token; `auto` reads it from the
    model's folder."""
    query_prefix: Annotated[str | None, ReadBy(("onnx", "local"))] = None
    """Text that `onnx` and `local` put before a question; None reads it from the model's folder."""
    passage_prefix: Annotated[str | None, ReadBy(("onnx", "local"))] = None
    """Text that `onnx` and `local` put before what is searched; None reads it from the model's folder."""
    settings: Annotated[dict[str, JsonValue], ReadBy(())] = Field(default_factory=dict)
    """Further settings of a plugin's provider."""

    def __hash__(self) -> int:
        # Equal configurations share one embedder; `settings` has no hash of its own.
        return hash(self.model_dump_json())


class EmbeddingConfig(ConfigModel):
    """Which model makes the vectors; without this block a store is searched by its text alone."""

    provider: Annotated[str, offered("embedding provider", lambda types: types.embedding_providers())] = "minilm"
    """`minilm` (English) and `e5` (some hundred languages) need no network and no key; `onnx` takes an exported model,
    `local` any sentence-transformers model; `openai` any service that speaks its protocol; with `given` the caller
    hands over every vector; a plugin's name its provider."""
    model: str | None = None
    """The provider's name of the model, for `onnx` the graph's file in the folder; None takes the usual one."""
    api_key: Annotated[SecretStr | None, ReadBy(("openai",))] = None
    """Key for `openai`; None takes the environment's OPENAI_API_KEY."""
    base_url: Annotated[str | None, ReadBy(("openai",))] = None
    """Address of an OpenAI-compatible service."""
    params: EmbeddingParams = Field(default_factory=EmbeddingParams)
    """Details of the provider."""

    @model_validator(mode="before")
    @classmethod
    def _of_name(cls, raw: object) -> object:
        """Take the name of a provider for a block that names it and nothing else."""
        return {"provider": raw} if isinstance(raw, str) else raw


WITHIN_SEARCH: Final = ("late_interaction", "none")
"""Rerankers that are part of the search: nothing reads the hits again."""
OWN_KINDS: Final = frozenset(
    {"minilm", "e5", "onnx", "local", "openai", *WITHIN_SEARCH, "cross_encoder", "llm", "orders"}
)
"""Embedding providers, rerankers and checks of a guard that are devmem's own."""


class RerankerConfig(ConfigModel):
    """Reranker of the best candidates."""

    type: Annotated[str, offered("reranker", lambda types: types.rerankers())] = "late_interaction"
    """`late_interaction` compares token by token, with what the embedding model made already; `none` does without;
    after that comparison, `cross_encoder` reads question and text together, `llm` asks a chat model, and a plugin's
    name has the plugin read them."""
    depth: Annotated[int, ReadBy(("cross_encoder", "llm"))] = Field(default=20, ge=1)
    """Maximum number of hits that a `cross_encoder`, an `llm` or a plugin reads."""
    model_path: Annotated[Annotated[Path, KNOWN_HOME] | None, ReadBy(("cross_encoder",))] = None
    """Folder with the files of a sentence-transformers cross encoder, for `cross_encoder`."""
    provider: Annotated[str, ReadBy(("llm",))] = "openai"
    """Chat provider, for `llm`."""
    model: Annotated[str | None, ReadBy(("llm",))] = None
    """Name of the chat model, for `llm`."""
    api_key: Annotated[SecretStr | None, ReadBy(("llm",))] = None
    """Key of the chat service, for `llm`; None takes the environment's."""
    base_url: Annotated[str | None, ReadBy(("llm",))] = None
    """Address of an OpenAI-compatible service, for `llm`."""
    timeout: Annotated[float, ReadBy(("llm",))] = Field(default=10.0, gt=0)
    """Seconds that a chat service may take for one request, for `llm`; one that fails is asked once more."""
    params: Annotated[dict[str, JsonValue], ReadBy(("llm",))] = Field(default_factory=dict)
    """Further settings of a plugin; for `llm`, parameters of its requests."""

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


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"{name!r} is not a time zone that this machine knows; write one such as Asia/Shanghai or UTC"
        ) from None
    return name


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
    timezone: Annotated[str, AfterValidator(_known_zone)] | None = None
    """Zone of those who ask, such as `Asia/Shanghai`, whose days "yesterday" in a question means; a question that is
    asked with a zone has its own. None is the zone of the machine."""
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
    focus: bool = True
    """Of a message that asks something, let the other sentences, such as small talk, count a tenth of their words; a
    question that refers to the rest of its message counts with all of it."""
    spelling: bool = True
    """Search for the word that is meant by a misspelled one: that neither the store nor the embedding model knows, one
    letter away from a word that both know."""
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


LEAST_FOR_APPROXIMATE: Final = 1000
"""Fewer vectors than this give nothing to learn codes from, and are searched exactly in no time."""
_KEY: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.:/ -]*$"
"""Keys that every database can name in an expression."""


def _checked_path(path: str) -> str:
    if not is_path(path):
        raise ValueError(
            f"{path!r} is not a path of a field: write keys with periods between them, as in author.name, and [*] or "
            "[0] behind a list, as in chapters[*].content"
        )
    return path


class IndexConfig(ConfigModel):
    """Indexes of vectors, metadata and fields; the defaults suit every size that was measured, up to a million."""

    search: Literal["auto", "exact", "approximate"] = "auto"
    """`exact` compares with every vector; `approximate` looks at short codes first and compares with the best of them;
    `auto` is exact until there are `approximate_from` vectors."""
    approximate_from: int = Field(default=5_000, ge=LEAST_FOR_APPROXIMATE)
    """Vectors from which `auto` searches approximately; below it an exact search takes about half a millisecond."""

    metadata: tuple[Annotated[str, Field(pattern=_KEY)], ...] = ()
    """Keys of the items' metadata that have an index of their own: filters on them and lists of their values read no
    other item."""

    fields: tuple[Annotated[str, AfterValidator(_checked_path)], ...] | None = None
    """Fields of the items' metadata that are searched beside their text, each by itself: `title`, `author.name`,
    `chapters[*].content`. An item is as good as its best field. Absent keeps those that the store records; after a
    change `devmem reindex` brings the items up to date that are there."""

    def threshold(self) -> int | None:
        """Return the number of vectors from which the search is approximate; None when it never is."""
        if self.search == "exact":
            return None
        return LEAST_FOR_APPROXIMATE if self.search == "approximate" else self.approximate_from


class KeyConfig(ConfigModel):
    """Place of a key; the key itself is never written into a workflow."""

    env: str | None = Field(default=None, min_length=1)
    """Variable of the environment that holds the key."""
    file: Annotated[Path, KNOWN_HOME] | None = None
    """File that holds the key, such as a mounted secret."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("name one place of the key: `{env: NAME}` or `{file: PATH}`")
        return self


class EncryptionConfig(ConfigModel):
    """Encryption of the files of a store."""

    key: KeyConfig
    """Place of the key, which is 32 random bytes as 64 hexadecimal digits or as base64."""

    def read_key(self, base_dir: Path) -> StoreKey:
        """Return the key; a relative path starts at `base_dir`.

        Raises:
            EncryptionError: it is not there, or is not a key.
        """
        if self.key.file is not None:
            return read_key_file(base_dir / expanded(self.key.file))
        return read_key_variable(str(self.key.env))


_MODELS: Final[Mapping[str, tuple[str, str]]] = {
    "minilm": ("sentence-transformers", "all-MiniLM-L6-v2"),
    "e5": ("intfloat", "multilingual-e5-small"),
}
"""Publisher and name of the model."""


def only_model(provider: str) -> str | None:
    """Return the name of a provider's only model; None for a provider that has others."""
    return _MODELS[provider][1] if provider in _MODELS else None


def names_only_model(provider: str, model: str | None) -> bool:
    """Whether a configured model is the only one of a provider, with its publisher or without, or is left out."""
    publisher, only = _MODELS[provider]
    return model in (None, only, f"{publisher}/{only}")


_DAY: Final = 86_400.0
_FOREIGN: Final = (SourceKind.TOOL, SourceKind.FILE, SourceKind.IMPORT, SourceKind.NODE)


class GuardCheckConfig(ConfigModel):
    """One check of the texts that are written."""

    type: Annotated[str, offered("check of a guard", lambda types: types.guard_checks())] = Field(
        default="orders", min_length=1
    )
    """`orders` finds text that gives orders to a model or asks to be remembered, by rules; `llm` asks a chat model; a
    plugin's name has the plugin read it."""
    sources: tuple[SourceKind, ...] = _FOREIGN
    """Origins whose texts are read: `node` (an agent), `tool`, `file`, `import`, `summary`, `user`."""
    on_error: Literal["quarantine", "admit"] = "quarantine"
    """Whether a text that the check could not read is admitted, as when a service does not answer."""
    provider: Annotated[str, ReadBy(("llm",))] = "openai"
    """Chat provider, for `llm`."""
    model: Annotated[str | None, ReadBy(("llm",))] = None
    """Name of the chat model, for `llm`."""
    api_key: Annotated[SecretStr | None, ReadBy(("llm",))] = None
    """Key of the chat service, for `llm`; None takes the environment's."""
    base_url: Annotated[str | None, ReadBy(("llm",))] = None
    """Address of an OpenAI-compatible service, for `llm`."""
    timeout: Annotated[float, ReadBy(("llm",))] = Field(default=10.0, gt=0)
    """Seconds that a chat service may take for one text, for `llm`."""
    params: Annotated[dict[str, JsonValue], ReadBy(("llm",))] = Field(default_factory=dict)
    """Further settings of a plugin; for `llm`, parameters of its requests."""

    @model_validator(mode="after")
    def _ask_for_a_model(self) -> Self:
        if self.type == "llm" and not self.model:
            raise ValueError("`type: llm` needs `model`, the name of a chat model")
        return self


class GuardConfig(ConfigModel):
    """Rules by which a store puts writes into quarantine; without this block it takes every write."""

    sources: tuple[SourceKind, ...] | None = None
    """Origins that may write: `user`, `node` (an agent), `tool`, `file`, `import`, `summary`. Absent admits all."""
    min_trust: float = Field(default=0.0, ge=0, le=1)
    """Least trust of what is written."""
    max_length: int | None = Field(default=None, ge=1)
    """Maximum number of characters of an item. Absent sets no limit."""
    per_minute: int | None = Field(default=None, ge=1)
    """Maximum number of writes of one agent, tool or user within a minute. It is counted in each process."""
    per_run: int | None = Field(default=None, ge=1)
    """Maximum number of writes of one agent, tool or user within a run. It is counted in each process."""
    duplicates: bool = False
    """Whether a text is caught that is in its scope already but for spacing, case and punctuation. Equal texts are
    stored once in any case."""
    empty_talk: bool = False
    """Whether texts are caught that say nothing but "ok", "thanks" or "好的"."""
    # Constructed, so that importing this builds no validator.
    checks: tuple[GuardCheckConfig, ...] = (GuardCheckConfig.model_construct(),)
    """Checks of the text, in their order; the first one that finds something decides. An empty list reads no text."""
    keep: Duration = 30 * _DAY
    """How long an item stays in quarantine before it is deleted: seconds, or text such as `30d`."""
