"""How a store's texts become vectors, as the `embedding:` block of a store says it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue, SecretStr

from devmem.config.base import ConfigModel

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
    model_path: Path | None = None
    """Folder with the model's files (`local`, `onnx`: required; `minilm`, `e5`: instead of the installed package)."""
    device: str = "cpu"
    """Device that `local` runs on, as torch names it."""
    dimensions: int | None = Field(default=None, gt=0)
    """Length of the vectors to ask `openai` for; None leaves it to the model."""
    batch_size: int = Field(default=64, gt=0)
    """Texts in one call of the model."""
    timeout: float = Field(default=30.0, gt=0)
    """Seconds that `openai` may take for one request."""
    max_retries: int = Field(default=5, ge=0)
    """How often `openai` is asked again after 429, 5xx or a timeout, waiting longer each time."""
    threads: int = Field(default=1, ge=1)
    """Threads that `minilm`, `e5` and `onnx` use; more than one is slower on a busy machine."""
    backend: Literal["auto", "numpy", "onnx"] = "auto"
    """Library that `minilm` and `e5` run on; `auto` takes onnxruntime where it is installed."""
    pooling: Literal["auto", "mean", "cls"] = "auto"
    """How `onnx` makes a text's vector of its tokens': their mean, or that of the first token; `auto` reads it from the
    model's folder."""
    query_prefix: str | None = None
    """Text that `onnx` and `local` put before a question; None reads it from the model's folder."""
    passage_prefix: str | None = None
    """Text that `onnx` and `local` put before what is searched; None reads it from the model's folder."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """Further settings of a plugin's provider."""

    def __hash__(self) -> int:
        # Equal configurations share one embedder; `settings` has no hash of its own.
        return hash(self.model_dump_json())


class EmbeddingConfig(ConfigModel):
    """Which model makes the vectors; without this block a store is searched by its text alone."""

    provider: str = "minilm"
    """`minilm` (English) and `e5` (some hundred languages) need no network and no key; `onnx` takes an exported model,
    `local` any sentence-transformers model; `openai` any service that speaks its protocol; a plugin's name its
    provider."""
    model: str | None = None
    """The provider's name of the model, for `onnx` the graph's file in the folder; None takes the usual one."""
    api_key: SecretStr | None = None
    """Key for `openai`; None takes the environment's OPENAI_API_KEY."""
    base_url: str | None = None
    """Address of an OpenAI-compatible service."""
    params: EmbeddingParams = Field(default_factory=EmbeddingParams)
    """Details of the provider."""
