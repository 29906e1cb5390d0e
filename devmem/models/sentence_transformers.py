"""The `local` provider: any sentence-transformers model in a folder on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from devmem.config.store import EmbeddingConfig
from devmem.errors import EmbeddingError, MissingExtraError, ModelNotFoundError
from devmem.model.items import Vector
from devmem.models.embedder import (
    CommonDirections,
    ModelIdentity,
    Span,
    TokenEmbedding,
    WordFinder,
    sample_texts,
    unit_rows,
)
from devmem.models.model_files import Prompts, read_prompts, sampled_digest
from devmem.models.transformer import LazyModel, TransformerEmbedder, unlike
from devmem.text.files import expanded


@dataclass(frozen=True, slots=True, kw_only=True)
class _TextToken:
    """A token of a text itself."""

    at: int
    """Its place among the model's tokens."""
    span: Span
    is_unknown: bool
    """Whether it stands for what the vocabulary does not have."""


class _SentenceModel(LazyModel):
    """The model of a folder, loaded when it is first needed."""

    def __init__(self, config: EmbeddingConfig, folder: Path) -> None:
        super().__init__(config.params)
        self.folder = folder
        self._config = config
        self._common: CommonDirections | None = None

    @property
    def prompts(self) -> Prompts:
        return self._prompts

    @cached_property
    def _prompts(self) -> Prompts:
        return read_prompts(self.folder, self._config.params)

    @property
    def identity(self) -> ModelIdentity:
        return self._identity

    @cached_property
    def _identity(self) -> ModelIdentity:
        digest = sampled_digest(_weights(self.folder), self.prompts.suffix.encode())
        return ModelIdentity(name=f"local:{self._config.model or self.folder.name}@{digest[:12]}")

    def vectors(self, texts: Sequence[str]) -> Vector:
        """Return what the model makes of the texts, shape (len(texts), dimension)."""
        # One at a time: the tokenizers below refuse a second thread ("Already borrowed").
        with self._lock:
            return np.asarray(self._encode(texts, "sentence_embedding"))

    def tokens(self, texts: Sequence[str], start: int) -> list[TokenEmbedding]:
        """Return of each text its vector as the model makes it, and the tokens from a character on."""
        with self._lock:
            made = self._encode(texts, None)
            if self._common is None:
                sampled_tokens = self._encode(sample_texts(), "token_embeddings")
                self._common = CommonDirections.of([_array(tokens)[1:-1] for tokens in sampled_tokens])
            common = self._common
            pieces = [self._pieces(text, start) for text in texts]
        return [_embedding(text, one, kept, common) for text, one, kept in zip(texts, made, pieces, strict=True)]

    def _pieces(self, text: str, start: int) -> list[_TextToken]:
        """Return a text's own tokens."""
        model: Any = self._loaded
        try:
            found: Mapping[str, Any] = model.tokenizer(
                text,
                truncation=True,
                max_length=model.max_seq_length,
                return_offsets_mapping=True,
                return_special_tokens_mask=True,
            )
        except NotImplementedError as error:
            raise EmbeddingError(
                f"{self.folder}: its tokenizer does not tell where tokens stand in a text, so there is no late "
                "interaction; do without by `retrieval: {reranker: {type: none}}`."
            ) from error
        unknown = model.tokenizer.unk_token_id
        marks = zip(found["offset_mapping"], found["special_tokens_mask"], found["input_ids"], strict=True)
        return [
            _TextToken(at=at, span=(span[0], span[1]), is_unknown=number == unknown)
            for at, (span, special, number) in enumerate(marks)
            if not special and span[1] > start
        ]

    def _encode(self, texts: Sequence[str], output: str | None) -> Any:  # noqa: ANN401 - as sentence-transformers has it
        model: Any = self._loaded
        try:
            # An empty prompt, since the texts have theirs already.
            return model.encode(
                list(texts),
                prompt="",
                batch_size=self.params.batch_size,
                show_progress_bar=False,
                output_value=output,
            )
        except Exception as error:
            raise EmbeddingError(f"{self.folder}: the model failed: {error}") from error

    def load(self) -> Any:  # noqa: ANN401 - sentence-transformers publishes no types
        _weights(self.folder)
        try:
            package = import_module("sentence_transformers")
        except ImportError as error:
            raise MissingExtraError(
                feature="the embedding provider 'local'",
                package="sentence-transformers",
                extra="local",
                advice="Before it, `pip install torch==2.13.0`, or pip may take a much larger build.",
            ) from error
        device = self.params.device
        try:
            with _without_progress_bars():
                return package.SentenceTransformer(str(self.folder), device=device, local_files_only=True)
        except Exception as error:
            raise EmbeddingError(f"{self.folder}: cannot be loaded on {device!r}: {error}") from error


class Provider(TransformerEmbedder):
    """Embeds with sentence-transformers, with a prefix before each text; the model is loaded at the first one."""

    def __init__(self, config: EmbeddingConfig) -> None:
        if config.params.model_path is None:
            raise EmbeddingError(
                "the embedding provider 'local' needs the folder of a sentence-transformers model: "
                "`embedding: {provider: local, params: {model_path: FOLDER}}`. Nothing is downloaded."
            )
        self._sentences = _SentenceModel(config, expanded(config.params.model_path))
        super().__init__(self._sentences)

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts, shape (len(texts), dimension).

        Raises:
            MissingExtraError: sentence-transformers is not installed.
            ModelNotFoundError: the folder holds no weights.
            EmbeddingError: sentence-transformers cannot load or run the model.
        """
        vectors = self._sentences.vectors([self._prefix + text for text in texts])
        return unit_rows(vectors, source=self.identity.name)

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed the texts and their tokens in one pass; raises what `embed` raises."""
        made = self._sentences.tokens([self._prefix + text for text in texts], len(self._prefix))
        vectors = unit_rows(np.stack([one.vector for one in made]), source=self.identity.name)
        return [replace(one, vector=vector) for one, vector in zip(made, vectors, strict=True)]


def _embedding(
    text: str,
    made: Mapping[str, Any],
    pieces: Sequence[_TextToken],
    common: CommonDirections,
) -> TokenEmbedding:
    """Return a text's vector as the model made it, with the vectors and words of some of its tokens."""
    own = _array(made["token_embeddings"])[[piece.at for piece in pieces]]
    finder, spans = WordFinder(text), [piece.span for piece in pieces]
    return TokenEmbedding(
        vector=_array(made["sentence_embedding"]),
        tokens=unlike(own, common),
        words=finder.words(spans),
        known=finder.known_share(spans, [piece.is_unknown for piece in pieces]),
    )


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Keep transformers from drawing on the error stream, which belongs to the program that uses devmem."""
    # sentence-transformers has imported it, unless a version of it works without.
    bars: Any = sys.modules.get("transformers.utils.logging")
    if bars is None:
        yield
        return
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


def _array(tensor: Any) -> Vector:  # noqa: ANN401 - torch publishes types that mypy cannot follow here
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float32)


def _weights(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.safetensors")) or sorted(folder.rglob("*.bin"))
    if not found:
        raise ModelNotFoundError(
            f"{folder}: no sentence-transformers model there (no .safetensors and no .bin file). "
            "`params.model_path` has to name the folder that `SentenceTransformer(...).save(FOLDER)` wrote."
        )
    return found
