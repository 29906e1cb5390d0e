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
from devmem.storage import Condition, above, absent, at_least, at_most, below, one_of, present

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
    sparse = found.get("sparse_embedding")
    return Document(
        id=str(record.metadata[KEY]),
        content=found.get("content", record.text),
        blob=_blob(found["blob"]) if "blob" in found else None,
        meta=given_metadata(record, DOCUMENT),
        score=found.get("score") if score is None else score,
        embedding=embedding,
        sparse_embedding=None if sparse is None else SparseEmbedding.from_dict(dict(sparse)),
    )


def _blob(form: Mapping[str, Any]) -> ByteStream:
    return ByteStream(data=base64.b64decode(form["data"]), meta=dict(form["meta"]), mime_type=form["mime_type"])


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
    return _comparison(filters) if "field" in filters else _logic(filters)


def _logic(filters: Mapping[str, Any]) -> Translated:
    operator, conditions = _part(filters, "operator"), _part(filters, "conditions")
    if operator not in _LOGIC:
        raise FilterError(f"unknown logical operator {operator!r}; there are {', '.join(_LOGIC)}")
    if not isinstance(conditions, Sequence) or isinstance(conditions, str):
        raise FilterError(f"'conditions' are a list, not {conditions!r:.60}")
    parts = [translate(each) for each in conditions]
    is_exact = all(part.is_exact for part in parts)
    if operator == "OR":
        # Of no conditions none holds.
        return Translated(reduce(or_, (part.where for part in parts), ~Filter()), is_exact)
    both = Translated(reduce(and_, (part.where for part in parts), Filter()), is_exact)
    if operator == "AND":
        return both
    return Translated(~both.where) if is_exact else _UNKNOWN


def _part(filters: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - any value
    if name not in filters:
        raise FilterError(f"{name!r} is missing in {dict(filters)!r:.200}")
    return filters[name]


def _comparison(condition: Mapping[str, Any]) -> Translated:
    field, operator, value = (_part(condition, name) for name in ("field", "operator", "value"))
    if operator not in _COMPARISONS:
        raise FilterError(f"unknown comparison operator {operator!r}; there are {', '.join(_COMPARISONS)}")
    if operator in _RANGES:
        return _range(field, operator, value)
    if operator in ("==", "!="):
        found = _equal(field, value)
    elif isinstance(value, list):
        parts = [_equal(field, each) for each in value]
        found = Translated(reduce(or_, (part.where for part in parts), ~Filter()), all(part.is_exact for part in parts))
    else:
        raise FilterError(f"the value of {operator!r} is a list, not {type(value).__name__}")
    if operator in ("==", "in"):
        return found
    return Translated(~found.where) if found.is_exact else _UNKNOWN


def _equal(field: str, value: Any) -> Translated:  # noqa: ANN401 - any value
    key = metadata_key(field)
    if key is None:
        return _UNKNOWN
    if value is None:
        return Translated(_having(key, absent()))
    if isinstance(value, datetime):
        value = value.isoformat()
    if isinstance(value, bool) or (isinstance(value, int | float) and value in (0, 1)):
        # In Python, 1 equals True.
        return Translated(_having(key, one_of(bool(value), int(value))))
    if isinstance(value, str) and (time := _time_of(value)) is not None:
        moment = Filter(metadata={key: (at_least(time), below(time + timedelta(microseconds=1)))})
        return Translated(_having(key, one_of(value)) | moment)
    if isinstance(value, str | int | float) and value == value:
        return Translated(_having(key, one_of(value)))
    # Lists and mappings are compared by Haystack.
    return Translated(_having(key, present()), is_exact=False)


def _range(field: str, operator: str, value: Any) -> Translated:  # noqa: ANN401 - any value
    if isinstance(value, list):
        raise FilterError(f"{operator!r} compares with no list")
    if value is None:
        return Translated(~Filter())
    time = value if isinstance(value, datetime) else _time_of(value) if isinstance(value, str) else None
    if isinstance(value, str) and time is None:
        raise FilterError(f"{operator!r} compares numbers and dates, and {value!r:.60} is neither")
    key = metadata_key(field)
    if key is None:
        return _UNKNOWN
    if time is not None:
        return Translated(_having(key, _RANGES[operator](time.replace(tzinfo=time.tzinfo or UTC))))
    if not isinstance(value, int | float) or value != value:
        raise FilterError(f"{operator!r} compares with no {type(value).__name__}")
    return Translated(_having(key, _RANGES[operator](float(value) if isinstance(value, bool) else value)))


def _having(key: str, condition: Condition) -> Filter:
    return Filter(metadata={key: condition})


def _time_of(text: str) -> datetime | None:
    """Return the time that a text means in ISO 8601, UTC where it names no zone; None for others."""
    if len(text) < len("2026-06-02"):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.replace(tzinfo=time.tzinfo or UTC)
