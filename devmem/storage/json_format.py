"""The items of DevAll's (ChatDev 2) memory file: a JSON list of mappings."""

from __future__ import annotations

import binascii
import itertools
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from devmem.errors import CollectionDamagedError, CollectionUnwritableError, EmbeddingMismatchError
from devmem.model.items import MemoryItem, Vector, dump_item, load_item
from devmem.models.embedder import ModelIdentity, PassageEmbeddings, TokenCodes

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


_MODEL_KEY: Final = "embedding_model"
"""A key of devmem's own in an item of the file; DevAll ignores keys that it does not know."""
_PASSAGES_KEY: Final = "embedding_passages"
"""Likewise: what `embedding` leaves out of several passages and of tokens, see `passage_form`."""
_REFUSAL_KEY: Final = "embedding_refusal"
"""Likewise: why the item is not embedded, by the model that refused it."""
_OWN_KEYS: Final = (_MODEL_KEY, _PASSAGES_KEY, _REFUSAL_KEY)


@dataclass(frozen=True, slots=True)
class JsonEntry:
    """One entry of the file."""

    item: MemoryItem
    """The item, with its embedding as it stands in the file."""
    model: str | None = None
    """Name of the model that made the embedding; None where the entry does not name it, as in DevAll's files."""
    passages: PassageEmbeddings | None = None
    """Embeddings of all passages, where the entry has more than the item's embedding."""
    refusal: str | None = None
    """Why the model does not embed the item; None where it was not refused."""
    words_only: bool = False
    """Whether it records that the file has no model on purpose, by a model that is null."""

    def dump(self) -> dict[str, Any]:
        """Return the entry's form in the file."""
        raw = dump_item(self.item)
        if self.model and self.refusal is not None:
            raw |= {_REFUSAL_KEY: {self.model: self.refusal}}
        if self.words_only and self.item.embedding is None:
            return raw | {_MODEL_KEY: None}
        if not self.model or self.item.embedding is None:
            return raw
        form = None if self.passages is None else dump_passages(self.passages)
        return raw | {_MODEL_KEY: self.model} | ({} if form is None else {_PASSAGES_KEY: form})


def is_words_only(path: str) -> bool:
    """Whether a file records that it has no model on purpose; not where it cannot be read, or names a model."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return False
    entries = [each for each in content if isinstance(each, Mapping)] if isinstance(content, list) else []
    models = [each[_MODEL_KEY] for each in entries if _MODEL_KEY in each]
    return bool(models) and not any(models)


def read_entries(path: Path, model: ModelIdentity | None) -> list[JsonEntry]:
    """Return the entries of a file that a collection with this model opens.

    Raises:
        CollectionDamagedError: the file is not a list of items.
        CollectionUnwritableError: it cannot be read.
        EmbeddingMismatchError: another model is named as what made its embeddings.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig", errors="strict"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CollectionDamagedError(
            path,
            f"is not JSON ({error}) and was left unchanged: repair it, or move it away to start with an empty one.",
        ) from error
    except OSError as error:
        raise CollectionUnwritableError(path, f"cannot be read: {error}") from error
    if not isinstance(content, list):
        raise CollectionDamagedError(
            path, f"holds {type(content).__name__}, not a list of items; it was left unchanged."
        )
    return list(_with_own_ids([_read_entry(path, at, raw, model) for at, raw in enumerate(content)]))


def _with_own_ids(entries: Sequence[JsonEntry]) -> Iterator[JsonEntry]:
    """Rename the later ones of items that share an id, so that none replaces another."""
    taken = {entry.item.id for entry in entries}
    given: set[str] = set()
    for entry in entries:
        first = name = entry.item.id
        if name in given:
            name = next(other for n in itertools.count(2) if (other := f"{first}#{n}") not in taken | given)
        given.add(name)
        yield entry if name == first else replace(entry, item=replace(entry.item, id=name))


def _read_entry(path: Path, at: int, raw: object, model: ModelIdentity | None) -> JsonEntry:
    if not isinstance(raw, Mapping):
        raise CollectionDamagedError(path, f"entry [{at}] is {type(raw).__name__}, not an item; it was left unchanged.")
    made_by = raw.get(_MODEL_KEY)
    if model and made_by and made_by != model.name:
        raise EmbeddingMismatchError(path, recorded=str(made_by), wanted=model.name)
    try:
        item = load_item({key: value for key, value in raw.items() if key not in _OWN_KEYS})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise CollectionDamagedError(path, f"entry [{at}].{place}: {first['msg']}; it was left unchanged.") from error
    passages, form = None, raw.get(_PASSAGES_KEY)
    try:
        if form is not None and item.embedding is not None:
            passages = load_passages(form, item.embedding)
    except ValueError as error:
        raise CollectionDamagedError(
            path, f"entry [{at}].{_PASSAGES_KEY}: {error}; it was left unchanged: take the key out to embed it again."
        ) from error
    return JsonEntry(
        item,
        str(made_by) if made_by else None,
        passages,
        refusal=_refusal_by(model, raw.get(_REFUSAL_KEY)),
        words_only=raw.get(_MODEL_KEY, "") is None,
    )


def _refusal_by(model: ModelIdentity | None, form: object) -> str | None:
    """Return why the model, or any one where none is given, refused an item; None where it did not."""
    if not isinstance(form, Mapping):
        return None
    return next((str(reason) for name, reason in form.items() if model is None or name == model.name), None)
