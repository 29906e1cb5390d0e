"""The embeddings of an item's passages in a JSON file, under a key of devmem's own beside `embedding`.

`embedding` is the vector of the first passage, as DevAll (ChatDev 2) has it. The others, and the codes of tokens, stand
here in base64: vectors as little-endian float32, codes as they are.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from devmem.embedding import PassageEmbeddings, TokenCodes
from devmem.model.items import Vector

_CONTENT: Final = "content_hash"
_VECTORS: Final = "vectors"
_TOKENS: Final = "tokens"
_WIDTH: Final = "bytes_per_token"


def dump_passages(embeddings: PassageEmbeddings) -> dict[str, Any] | None:
    """Return the form of all that the vector of the first passage leaves out; None where that is nothing."""
    if len(embeddings.vectors) == 1 and embeddings.tokens is None:
        return None
    form: dict[str, Any] = {_CONTENT: embeddings.content_hash, _VECTORS: _base64(embeddings.vectors[1:].astype("<f4"))}
    if embeddings.tokens is not None:
        form[_WIDTH] = embeddings.tokens[0].shape[1]
        form[_TOKENS] = [_base64(codes) for codes in embeddings.tokens]
    return form


def load_passages(raw: Mapping[str, Any], first: Vector) -> PassageEmbeddings:
    """Return the embeddings of a form and the vector of the first passage.

    Raises:
        ValueError: it is no such form.
    """
    try:
        others = np.frombuffer(b64decode(raw[_VECTORS], validate=True), dtype="<f4").reshape(-1, len(first))
        return PassageEmbeddings(
            vectors=np.concatenate([first[None], others.astype(np.float32)]),
            tokens=_tokens(raw),
            content_hash=raw[_CONTENT],
        )
    except (KeyError, TypeError, binascii.Error) as error:
        raise ValueError(f"not as devmem writes it: {error!r}") from error


def _tokens(raw: Mapping[str, Any]) -> tuple[TokenCodes, ...] | None:
    if raw.get(_TOKENS) is None:
        return None
    width = int(raw[_WIDTH])
    decoded = (b64decode(one, validate=True) for one in raw[_TOKENS])
    return tuple(np.frombuffer(one, dtype=np.uint8).reshape(-1, width) for one in decoded)


def _base64(array: np.ndarray[Any, Any]) -> str:
    return b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
