"""The `minilm` provider: all-MiniLM-L6-v2 on this machine, without network, torch or key."""

from __future__ import annotations

from devmem.config.embedding import EmbeddingConfig, EmbeddingParams
from devmem.config.only_models import names_only_model
from devmem.embedding.base import ModelIdentity
from devmem.embedding.bert.backend import WIDTH
from devmem.embedding.bert.embedder import BertEmbedder, BertModel, LazyModel
from devmem.embedding.bert.opening import open_backend
from devmem.embedding.minilm.files import HELP, WEIGHTS_SHA256, find_model, read_vocabulary, weights_path
from devmem.embedding.minilm.wordpiece import WordPiece
from devmem.embedding.model_files import check_digest, mapped
from devmem.embedding.safetensors import read_tensors
from devmem.errors import EmbeddingError, ModelNotFoundError

_NAME = "all-MiniLM-L6-v2"
_MAX_TOKENS = 256


class Provider(BertEmbedder):
    """Embeds with all-MiniLM-L6-v2; the files are located, checked and loaded at the first text.

    Embedding raises `ModelNotFoundError` when the files are not on this machine, `ModelDamagedError` when they are not
    the official ones, and `MissingExtraError` when `backend: onnx` is asked for and onnxruntime is not installed.
    """

    def __init__(self, config: EmbeddingConfig) -> None:
        if not names_only_model("minilm", config.model):
            raise EmbeddingError(
                f"the provider 'minilm' has one model, {_NAME}, not {config.model!r}. "
                "Leave `model` out, or use another one by `provider: local, params: {model_path: FOLDER}`."
            )
        params = config.params
        identity = ModelIdentity(name=f"minilm:{_NAME}", dimension=WIDTH)
        super().__init__(LazyModel(lambda: _load(params)), identity, batch_size=params.batch_size)


def _load(params: EmbeddingParams) -> BertModel:
    folder = find_model(params.model_path)
    try:
        tokenizer = WordPiece(read_vocabulary(folder), max_tokens=_MAX_TOKENS)
        content = mapped(weights_path(folder))
    except OSError as error:
        raise ModelNotFoundError(f"{folder}: the model's files cannot be read: {error}") from error
    # The digest is of the mapped bytes themselves, so the checked content is the content that is used.
    check_digest(weights_path(folder), content, WEIGHTS_SHA256, advice=HELP)
    weights = read_tensors(content)
    words = weights["embeddings.word_embeddings.weight"]
    return BertModel(tokenizer=tokenizer, backend=open_backend(params, weights, words))
