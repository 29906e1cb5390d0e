"""The `local` provider: any sentence-transformers model in a folder on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from devmem.models.transformer import LoadedOnce, TransformerEmbedder, unlike
from devmem.text.files import expanded


class SentenceTransformersEmbedder(TransformerEmbedder):
    """Embeds with sentence-transformers, with a prefix before each text; the model is loaded at the first one."""

    def __init__(self, config: EmbeddingConfig) -> None:
        if config.params.model_path is None:
            raise EmbeddingError(
                "the embedding provider 'local' needs the folder of a sentence-transformers model: "
                "`embedding: {provider: local, params: {model_path: FOLDER}}`. Nothing is downloaded."
            )
        super().__init__(config.params)
        self._folder, self._name = expanded(config.params.model_path), config.model
        self._prompts = LoadedOnce(lambda: read_prompts(self._folder, config.params))
        self._identity = LoadedOnce(self._identified)
        self._common = LoadedOnce(self._common_directions)

    @property
    def prompts(self) -> Prompts:
        """Prompts of the folder, or of the parameters."""
        return self._prompts.get()

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the model, with a digest of samples of its weights."""
        return self._identity.get()

    def _identified(self) -> ModelIdentity:
        digest = sampled_digest(_weights(self._folder), self.prompts.suffix.encode())
        return ModelIdentity(name=f"local:{self._name or self._folder.name}@{digest[:12]}")

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts, shape (len(texts), dimension).

        Raises:
            MissingExtraError: sentence-transformers is not installed.
            ModelNotFoundError: the folder holds no weights.
            EmbeddingError: sentence-transformers cannot load or run the model.
        """
        vectors = np.asarray(self._encode([self._prefix + text for text in texts], "sentence_embedding"))
        return unit_rows(vectors, source=self.identity.name)

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed the texts and their tokens in one pass; raises what `embed` raises."""
        prefixed = [self._prefix + text for text in texts]
        made, common = self._encode(prefixed, None), self._common.get()
        vectors = unit_rows(np.stack([_array(one["sentence_embedding"]) for one in made]), source=self.identity.name)
        found = []
        for text, one, vector in zip(prefixed, made, vectors, strict=True):
            kept, spans, unknown = self._pieces(text)
            finder, tokens = WordFinder(text), unlike(_array(one["token_embeddings"])[kept], common)
            known = finder.known_share(spans, unknown)
            found.append(TokenEmbedding(vector=vector, tokens=tokens, words=finder.words(spans), known=known))
        return found

    def _common_directions(self) -> CommonDirections:
        sampled = self._encode(sample_texts(), "token_embeddings")
        return CommonDirections.of([_array(tokens)[1:-1] for tokens in sampled])

    def _pieces(self, text: str) -> tuple[list[int], list[Span], list[bool]]:
        """Return the places, the spans, and which are unknown, of a text's own tokens behind the prefix."""
        model: Any = self._model.get()
        try:
            with self._model.lock:
                found: Mapping[str, Any] = model.tokenizer(
                    text,
                    truncation=True,
                    max_length=model.max_seq_length,
                    return_offsets_mapping=True,
                    return_special_tokens_mask=True,
                )
        except NotImplementedError as error:
            raise EmbeddingError(
                f"{self._folder}: its tokenizer does not tell where tokens stand in a text, so there is no late "
                "interaction; do without by `retrieval: {reranker: {type: none}}`."
            ) from error
        spans: list[Span] = [(start, end) for start, end in found["offset_mapping"]]
        own = zip(spans, found["special_tokens_mask"], strict=True)
        kept = [at for at, ((_, end), special) in enumerate(own) if not special and end > len(self._prefix)]
        unknown = [found["input_ids"][at] == model.tokenizer.unk_token_id for at in kept]
        return kept, [spans[at] for at in kept], unknown

    def _encode(self, texts: Sequence[str], output: str | None) -> Any:  # noqa: ANN401 - as sentence-transformers has it
        model: Any = self._model.get()
        try:
            # One at a time: the tokenizers below refuse a second thread ("Already borrowed"). An empty prompt, since
            # the texts have theirs already.
            with self._model.lock:
                return model.encode(
                    list(texts),
                    prompt="",
                    batch_size=self._params.batch_size,
                    show_progress_bar=False,
                    output_value=output,
                )
        except Exception as error:
            raise EmbeddingError(f"{self._folder}: the model failed: {error}") from error

    def load(self) -> Any:  # noqa: ANN401 - sentence-transformers publishes no types
        """Load the model."""
        _weights(self._folder)
        try:
            package = import_module("sentence_transformers")
        except ImportError as error:
            raise MissingExtraError(
                feature="the embedding provider 'local'",
                package="sentence-transformers",
                extra="local",
                advice="Before it, `pip install torch==2.13.0`, or pip may take a much larger build.",
            ) from error
        device = self._params.device
        try:
            with _without_progress_bars():
                return package.SentenceTransformer(str(self._folder), device=device, local_files_only=True)
        except Exception as error:
            raise EmbeddingError(f"{self._folder}: cannot be loaded on {device!r}: {error}") from error


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
