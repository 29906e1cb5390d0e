"""The items of DevAll's (ChatDev 2) memory file: a JSON list of mappings."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from devmem.embedding import ModelIdentity
from devmem.errors import CollectionDamagedError, CollectionUnwritableError, EmbeddingMismatchError
from devmem.model.items import MemoryItem, dump_item, load_item

_MODEL_KEY: Final = "embedding_model"
"""A key of devmem's own in an item of the file; DevAll ignores keys that it does not know."""

_UNIT_ERROR: Final = 1e-5


def dump_json_item(item: MemoryItem, model: ModelIdentity | None) -> dict[str, Any]:
    """Return an item's form in the file, with the name of the model that made its embedding."""
    raw = dump_item(item)
    return raw | {_MODEL_KEY: model.name} if model and item.embedding is not None else raw


def read_json_items(path: Path, model: ModelIdentity | None) -> list[MemoryItem]:
    """Return the items of a file; an embedding that cannot be of this model is left out.

    Raises:
        CollectionDamagedError: the file is not a list of items.
        CollectionUnwritableError: it cannot be read.
        EmbeddingMismatchError: another model is named as what made its embeddings.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig", errors="strict"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CollectionDamagedError(
            path, f"is not JSON ({error}) and was left as it is: repair it, or move it away to start with an empty one."
        ) from error
    except OSError as error:
        raise CollectionUnwritableError(path, f"cannot be read: {error}") from error
    if not isinstance(content, list):
        raise CollectionDamagedError(
            path, f"holds {type(content).__name__}, not a list of items; it was left as it is."
        )
    items = [_read_item(path, at, raw, model) for at, raw in enumerate(content)]
    return _with_usable_embeddings(list(_with_own_ids(items)), model)


def _with_own_ids(items: Sequence[MemoryItem]) -> Iterator[MemoryItem]:
    """Rename the later ones of items that share an id, so that none replaces another."""
    taken = {item.id for item in items}
    given: set[str] = set()
    for item in items:
        name = item.id
        if name in given:
            name = next(other for n in itertools.count(2) if (other := f"{item.id}#{n}") not in taken | given)
        given.add(name)
        yield item if name == item.id else replace(item, id=name)


def _read_item(path: Path, at: int, raw: object, model: ModelIdentity | None) -> MemoryItem:
    if not isinstance(raw, Mapping):
        raise CollectionDamagedError(path, f"entry [{at}] is {type(raw).__name__}, not an item; it was left as it is.")
    made_by = raw.get(_MODEL_KEY)
    if model and made_by and made_by != model.name:
        raise EmbeddingMismatchError(path, recorded=str(made_by), wanted=model.name)
    try:
        return load_item({key: value for key, value in raw.items() if key != _MODEL_KEY})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise CollectionDamagedError(path, f"entry [{at}].{place}: {first['msg']}; it was left as it is.") from error


def _with_usable_embeddings(items: list[MemoryItem], model: ModelIdentity | None) -> list[MemoryItem]:
    """Normalise the embeddings, and drop those that cannot be of this model: their items are embedded again.

    DevAll records no model, and it stored zeros where an embedding failed.
    """
    lengths = Counter(len(item.embedding) for item in items if item.embedding is not None)
    wanted = model.dimension if model and model.dimension else next(iter(dict(lengths.most_common(1))), None)
    usable = []
    for item in items:
        vector = item.embedding
        if vector is not None:
            norm = float(np.linalg.norm(vector))
            good = len(vector) == wanted and np.isfinite(norm) and norm > 0
            # What is of unit length already is left as it is, bit for bit.
            unit = vector if abs(norm - 1) < _UNIT_ERROR else vector / np.float32(norm or 1)
            item = replace(item, embedding=unit if good else None)
        usable.append(item)
    return usable
