"""Items as they are written: with passages, terms and embeddings, and the columns that every database has of them."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from devmem.errors import FilterError
from devmem.model.fields import embedded_hash
from devmem.model.filters import ITEM_FIELDS, Filter
from devmem.model.items import (
    MemoryItem,
    Vector,
    load_item_json,
    version_hash,
)
from devmem.model.record_fields import is_record, people_of
from devmem.model.results import WriteOutcome, WriteStatus
from devmem.model.versions import Operation
from devmem.models.embedder import PassageEmbeddings, code_bytes
from devmem.search.indexes.doc_values import STRING_COLUMNS
from devmem.search.indexes.passages import indexed_text, passages_of
from devmem.search.indexes.scoring import EncodedTerms, encode_terms
from devmem.text.cues import cues_of_item

Fields: TypeAlias = tuple[str, ...]
"""Paths of the items' metadata; see `MemoryItem.indexed_fields`."""
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedItem:
    """An item, the passages that it is searched by, and their embeddings where they were made."""

    item: MemoryItem
    passages: tuple[str, ...]
    """At least one; a single empty one when the item has no text."""
    embeddings: PassageEmbeddings | None = None
    """Embeddings of the passages; None when there are none yet, and the item waits for them."""
    encoded: tuple[EncodedTerms, ...] | None = None
    """Terms of the passages, where they were analysed already."""
    refusal: str | None = None
    """Why the model does not embed the text; the item then waits by itself."""

    @staticmethod
    def of(item: MemoryItem | PreparedItem, known: PassageEmbeddings | None = None) -> PreparedItem:
        """Cut an item into its passages.

        Their embeddings are those that are `known`, unless these are of another content; else the item's own
        `embedding` becomes that of the first one.
        """
        if isinstance(item, PreparedItem):
            return item
        own = None if item.embedding is None else PassageEmbeddings.of(item.embedding)
        if known is not None and known.is_of(embedded_hash(item)):
            own = known
        return PreparedItem(item=item, passages=tuple(passages_of(item)) or ("",), embeddings=own)

    def terms(self) -> Sequence[EncodedTerms]:
        """Return what full-text search finds each passage by, in order."""
        if self.encoded is not None:
            return self.encoded
        return list(map(encode_terms, self.indexed_texts()))

    def indexed_texts(self) -> list[str]:
        """Return what full-text search indexes for each passage, in order."""
        return [indexed_text(passage, self.item) for passage in self.passages]

    def analysed(self) -> PreparedItem:
        """Return the item with its terms."""
        return self if self.encoded is not None else replace(self, encoded=tuple(self.terms()))

    def length(self) -> int:
        """Return the characters of all passages."""
        return sum(map(len, self.passages))


class Unique(StrEnum):
    """Rule by which an item is the same as one that is stored already."""

    ID = "id"
    """The same id; with other content the item supersedes the older one."""
    CONTENT = "content"
    """The same content for the same agent and user; the item is not stored again."""


def check_deletion(ids: Sequence[str] | None, where: Filter | None) -> None:
    """Refuse a deletion of everything that does not say so.

    Raises:
        FilterError: there are no ids, and no filter that restricts anything.
    """
    if ids is None and (where is None or where.everything()):
        raise FilterError("", "a deletion needs ids or a filter that restricts; `clear` deletes everything")


@dataclass(frozen=True, kw_only=True)
class StoredVersion:
    """The current version of an item that is about to be written."""

    row: int
    content_hash: str
    item: MemoryItem

    @cached_property
    def version(self) -> str:
        """Its `version_hash`."""
        return version_hash(self.item)


def stored_outcome(item_id: str, *, replaced: str | None, waiting: bool) -> WriteOutcome:
    """Return the outcome of an item that was stored; `replaced` is the content hash of the version before."""
    return WriteOutcome(
        status=WriteStatus.STORED if replaced is None else WriteStatus.SUPERSEDED,
        item_id=item_id,
        replaced=replaced,
        waiting=waiting,
        reason="embedding pending" if waiting else "",
    )


MICROSECONDS: Final = 1_000_000
"""Units of a recorded time in a second."""
_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLimit:
    """How long versions are kept after another one took their place."""

    days: float | None
    """None keeps them permanently, 0 keeps none."""

    @property
    def keeps(self) -> bool:
        """Whether any are kept."""
        return self.days is None or self.days > 0

    def oldest(self, now: float) -> int | None:
        """Return the recorded time before which versions must have ended to be removed; None removes none.

        `now` is in seconds since the epoch.
        """
        return None if self.days is None else recorded(now - self.days * _DAY)

    def keeps_since(self, at: int, now: float) -> bool:
        """Whether every version that ended at a recorded time, or later, is still kept at `now`."""
        oldest = self.oldest(now)
        return self.keeps and (oldest is None or at >= oldest)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionEnd:
    """The change that ends versions, without when it happens."""

    operation: Operation
    run: str | None = None
    actor: str | None = None
    """Who makes it, as far as it is known."""


def recorded(seconds: float) -> int:
    """Return a time in seconds since the epoch as a database records it."""
    return round(seconds * MICROSECONDS)


def seconds(time: int) -> float:
    """Return a recorded time in seconds since the epoch."""
    return time / MICROSECONDS


REAL_COLUMNS: Final = ("created_at", "event_time", "expires_at", "trust", "importance")
"""Columns of items that are numbers with fractions."""
INTEGER_COLUMNS: Final = ("cues", "length")
COLUMNS: Final = ("id", "content_hash", *REAL_COLUMNS, *STRING_COLUMNS, *INTEGER_COLUMNS)
"""Columns of items that searches and filters read, in the order of `item_columns`; the others are texts."""


def missing_columns(found: Iterable[str]) -> str | None:
    """Return what is wrong with tables whose `items` have some columns; None where none of `COLUMNS` is missing."""
    there = set(found)
    missing = [repr(name) for name in COLUMNS if name not in there]
    if not missing:
        return None
    return (
        f"its table `items` has no column {', '.join(missing)}, which this devmem needs: use the devmem that made it, "
        "or export the items with that one and import them into a new store."
    )


def item_columns(prepared: PreparedItem) -> tuple[str | float | int | None, ...]:
    """Return the values of `COLUMNS`."""
    item = prepared.item
    return (
        item.id,
        item.content_hash,
        _number(item.created_at),
        None if item.event_time is None else _number(item.event_time),
        None if item.expires_at is None else _number(item.expires_at),
        _number(item.trust),
        _importance(item),
        *(each.of(item) for each in ITEM_FIELDS),
        speaker_of(item),
        int(cues_of_item(item)),
        prepared.length(),
    )


def _number(value: float) -> float:
    """Return a number as SQLite gives it back, which has no negative zero."""
    return float(value) + 0.0


def _importance(item: MemoryItem) -> float | None:
    found = item.metadata.get("importance")
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    if isinstance(found, float) and not math.isfinite(found):
        return None
    # An integer may be too large for a float.
    return _number(min(max(found, 0), 1))


def speaker_of(item: MemoryItem) -> str | None:
    """Return who speaks, or of a record whom it is shared with."""
    shared = ", ".join(people_of(item)) if is_record(item) else ""
    found = shared or item.metadata.get("speaker")
    return found if isinstance(found, str) and found else None


_FIELDS: Final = '"indexed_fields":'
"""Part of the body of every item with fields."""


def stored_hash(content_hash: str, body: str | bytes) -> str:
    """Return the `embedded_hash` of a stored item, given the hash of its content; only one with fields is read."""
    named = _FIELDS in body if isinstance(body, str) else _FIELDS.encode() in body
    return embedded_hash(load_item_json(body)) if named else content_hash


def check_item(item: MemoryItem) -> None:
    """Refuse an item whose fields do not fit their columns; `dump_item_json` refuses what has no JSON form.

    Raises:
        ValueError: it names the item and the field.
    """
    named = {"id": item.id, **{each.name: each.of(item) for each in ITEM_FIELDS}}
    for name, value in named.items():
        if value is not None and not isinstance(value, str):
            raise ValueError(f"item {item.id!r} cannot be stored: its `{name}` is {value!r}, not a string")
    for name in ("created_at", "event_time", "expires_at", "trust"):
        if _is_not_finite(value := getattr(item, name)):
            shown = value if isinstance(value, float) else "too large a number"
            raise ValueError(f"item {item.id!r} cannot be stored: its `{name}` is {shown}")


def _is_not_finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not math.isfinite(value)
    except OverflowError:
        return True


def with_fields(item: MemoryItem, fields: Fields, recorded: Sequence[Fields]) -> MemoryItem:
    """Return an item that is searched by fields of the store, of now or earlier, with others; any other as it is."""
    left_to_store = item.indexed_fields is None or (bool(item.indexed_fields) and item.indexed_fields in recorded)
    wanted = fields or None
    return replace(item, indexed_fields=wanted) if left_to_store and item.indexed_fields != wanted else item


_UNIT_ERROR: Final = 1e-5
"""Deviation from length 1 that rounding explains; such vectors stay as they are, bit for bit."""


def unit_vectors(vectors: Vector) -> Vector | None:
    """Return vectors, shape (n, dimension), scaled to unit length; None when one of them is zero or not finite."""
    # In 64 bits, as the square of a large component is infinite in 32.
    lengths = np.asarray(np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)))
    # Without numpy, which takes three times as long for the few vectors of an item.
    if all(abs(length - 1) < _UNIT_ERROR for length in lengths.tolist()):
        return vectors
    if not np.all(np.isfinite(lengths)) or not np.all(lengths > 0):
        return None
    scale = np.where(np.abs(lengths - 1) < _UNIT_ERROR, 1.0, lengths)
    return (vectors / scale[:, None]).astype(np.float32)


def usable_embeddings(item_id: str, embeddings: PassageEmbeddings | None) -> PassageEmbeddings | None:
    """Return embeddings of unit length; None, for the item to wait for others, where a vector has no direction."""
    if embeddings is None:
        return None
    vectors = unit_vectors(embeddings.vectors)
    if vectors is None:
        _LOG.warning("item %r: its embedding is zero or not finite; it waits for another one.", item_id)
        return None
    return embeddings if vectors is embeddings.vectors else replace(embeddings, vectors=vectors)


def embeddings_from(found: Sequence[tuple[Vector, bytes | None]], content_hash: str) -> PassageEmbeddings:
    """Return the embeddings of an item, given the vector of each passage, and its token codes where it has some."""
    vectors = np.stack([vector for vector, _ in found])
    width = code_bytes(vectors.shape[1])
    codes = tuple(np.frombuffer(raw, dtype=np.uint8).reshape(-1, width) for _, raw in found if raw is not None)
    tokens = codes if len(codes) == len(found) else None
    return PassageEmbeddings(vectors=vectors, tokens=tokens, content_hash=content_hash)
