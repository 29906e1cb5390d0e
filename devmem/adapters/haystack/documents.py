"""Haystack's documents as records of a memory, metadata beside each other, and its filters as those of a memory."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import and_, or_
from typing import Any, Final

from haystack import Document
from haystack.dataclasses import ByteStream, SparseEmbedding
from haystack.errors import FilterError

from devmem import Filter, MemoryItem
from devmem.adapters.hosts import KEY, given_metadata, kept_metadata, rest_of
from devmem.adapters.hosts import metadata_key as kept_key
from devmem.storage import above, absent, at_least, at_most, below, one_of, present

DOCUMENT: Final = "haystack"
"""Metadata key of what a record cannot hold otherwise; every document has it."""
_META: Final = "meta."
_ATTRIBUTES: Final = frozenset(field.name for field in fields(Document))


def metadata_key(field: str) -> str | None:
    """Return the metadata key of a field in a filter; None for content, blob and vectors, which have none."""
    if field == "id":
        return KEY
    return None if field in _ATTRIBUTES else kept_key(field.removeprefix(_META), DOCUMENT)


def text_form(document: Document) -> dict[str, Any]:
    """Return a document as `Memory.add` takes a text.

    Raises:
        ValueError: JSON cannot hold a value of its metadata.
    """
    rest: dict[str, Any] = {}
    if document.content is None:
        rest["content"] = None
    if document.blob is not None:
        data = base64.b64encode(document.blob.data).decode("ascii")
        rest["blob"] = {"data": data, "meta": dict(document.blob.meta), "mime_type": document.blob.mime_type}
    if document.sparse_embedding is not None:
        rest["sparse_embedding"] = document.sparse_embedding.to_dict()
    if document.score is not None:
        rest["score"] = document.score
    return {
        "text": document.content or "",
        "key": document.id,
        "embedding": document.embedding,
        "metadata": kept_metadata(document.meta, DOCUMENT, document.id, rest),
    }


def document_of(record: MemoryItem, *, score: float | None = None, with_embedding: bool = True) -> Document:
    """Return the document of a record; of one that something else remembered, its text, metadata and time.

    Args:
        record: the record.
        score: that of a search.
        with_embedding: whether the document has its vector.
    """
    found = rest_of(record, DOCUMENT)
    vector = record.vector if with_embedding else None
    embedding = None if vector is None else vector.tolist()
    if DOCUMENT not in record.metadata:
        meta = {**record.caller_metadata, "time": record.time.isoformat()}
        return Document(id=record.id, content=record.text, meta=meta, score=score, embedding=embedding)
    sparse, blob = found.get("sparse_embedding"), found.get("blob")
    return Document(
        id=str(record.metadata[KEY]),
        content=found.get("content", record.text),
        blob=blob and ByteStream(**{**blob, "data": base64.b64decode(blob["data"])}),
        meta=given_metadata(record, DOCUMENT),
        score=found.get("score") if score is None else score,
        embedding=embedding,
        sparse_embedding=None if sparse is None else SparseEmbedding.from_dict(dict(sparse)),
    )


_RANGES: Final = {">": above, ">=": at_least, "<": below, "<=": at_most}
_COMPARISONS: Final = ("==", "!=", *_RANGES, "in", "not in")
_LOGIC: Final = ("AND", "OR", "NOT")


@dataclass(frozen=True, slots=True)
class Translated:
    """A filter that admits at least what Haystack's admits."""

    where: Filter
    is_exact: bool = True
    """Whether it admits nothing else."""


_UNKNOWN: Final = Translated(Filter(), is_exact=False)


def translate(filters: Mapping[str, Any] | None) -> Translated:
    """Return the filter that databases carry out.

    Raises:
        FilterError: of Haystack, where an operator, a field, a value or the conditions are missing or mean nothing.
    """
    if not filters:
        return Translated(Filter())
    if not isinstance(filters, Mapping):
        raise FilterError(f"filters are a dictionary, not {filters!r:.60}")
    names = ("field", "operator", "value") if "field" in filters else ("operator", "conditions")
    if missing := [name for name in names if name not in filters]:
        raise FilterError(f"{missing[0]!r} is missing in {dict(filters)!r:.200}")
    if "field" in filters:
        return _comparison(*(filters[name] for name in names))
    operator, conditions = filters["operator"], filters["conditions"]
    if operator not in _LOGIC:
        raise FilterError(f"unknown logical operator {operator!r}; there are {', '.join(_LOGIC)}")
    if not isinstance(conditions, Sequence) or isinstance(conditions, str):
        raise FilterError(f"'conditions' are a list, not {conditions!r:.60}")
    parts = [translate(each) for each in conditions]
    if operator == "OR":
        return _any_of(parts)
    both = Translated(reduce(and_, (part.where for part in parts), Filter()), all(part.is_exact for part in parts))
    return both if operator == "AND" else _negated(both)


def _any_of(parts: Sequence[Translated]) -> Translated:
    # Of no conditions none holds.
    return Translated(reduce(or_, (part.where for part in parts), ~Filter()), all(part.is_exact for part in parts))


def _negated(found: Translated) -> Translated:
    return Translated(~found.where) if found.is_exact else _UNKNOWN


def _comparison(field: str, operator: str, value: Any) -> Translated:
    if operator not in _COMPARISONS:
        raise FilterError(f"unknown comparison operator {operator!r}; there are {', '.join(_COMPARISONS)}")
    key = metadata_key(field)
    if operator in _RANGES:
        return _range(key, operator, value)
    if operator in ("in", "not in") and not isinstance(value, list):
        raise FilterError(f"the value of {operator!r} is a list, not {type(value).__name__}")
    if key is None:
        return _UNKNOWN
    found = _any_of([_equal(key, each) for each in (value if operator in ("in", "not in") else [value])])
    return found if operator in ("==", "in") else _negated(found)


def _equal(key: str, value: Any) -> Translated:
    if value is None:
        return Translated(Filter(metadata={key: absent()}))
    if isinstance(value, datetime):
        value = value.isoformat()
    if isinstance(value, bool) or (isinstance(value, int | float) and value in (0, 1)):
        # In Python, 1 equals True.
        return Translated(Filter(metadata={key: one_of(bool(value), int(value))}))
    if not isinstance(value, str | int | float) or value != value:
        # Lists and mappings are compared by Haystack.
        return Translated(Filter(metadata={key: present()}), is_exact=False)
    same = Filter(metadata={key: one_of(value)})
    if isinstance(value, str) and (time := _time_of(value)) is not None:
        same |= Filter(metadata={key: (at_least(time), below(time + timedelta(microseconds=1)))})
    return Translated(same)


def _range(key: str | None, operator: str, value: Any) -> Translated:
    if value is None:
        return Translated(~Filter())
    time = value if isinstance(value, datetime) else _time_of(value) if isinstance(value, str) else None
    if isinstance(value, str) and time is None:
        raise FilterError(f"{operator!r} compares numbers and dates, and {value!r:.60} is neither")
    if time is None and (not isinstance(value, int | float) or value != value):
        raise FilterError(f"{operator!r} compares with no {type(value).__name__}")
    if key is None:
        return _UNKNOWN
    number = float(value) if isinstance(value, bool) else value
    least = number if time is None else time.replace(tzinfo=time.tzinfo or UTC)
    return Translated(Filter(metadata={key: _RANGES[operator](least)}))


def _time_of(text: str) -> datetime | None:
    """Return the time that a text means in ISO 8601, UTC where it names no zone; None for others."""
    if len(text) < len("2026-06-02"):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.replace(tzinfo=time.tzinfo or UTC)
