"""Haystack's documents as records of a memory: the metadata stand beside each other, the rest under one key."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from haystack import Document
from haystack.dataclasses import ByteStream, SparseEmbedding

from devmem import MemoryRecord
from devmem.adapters import host_documents
from devmem.adapters.host_documents import KEY

DOCUMENT: Final = "haystack"
"""Metadata key of what a record cannot hold otherwise; every document has it."""
_META: Final = "meta."
_ATTRIBUTES: Final = frozenset(field.name for field in fields(Document))


def metadata_key(field: str) -> str | None:
    """Return the metadata key of a field in a filter; None for content, blob and vectors, which have none."""
    if field == "id":
        return KEY
    return None if field in _ATTRIBUTES else host_documents.metadata_key(field.removeprefix(_META), DOCUMENT)


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
        "metadata": host_documents.kept_metadata(document.meta, DOCUMENT, document.id, rest),
    }


def document_of(record: MemoryRecord, *, score: float | None = None, with_embedding: bool = True) -> Document:
    """Return the document of a record; of one that something else remembered, its text, metadata and time.

    Args:
        record: the record.
        score: that of a search.
        with_embedding: whether the document has its vector.
    """
    found = host_documents.rest_of(record, DOCUMENT)
    vector = record.embedding if with_embedding else None
    embedding = None if vector is None else vector.tolist()
    if DOCUMENT not in record.metadata:
        meta = {**record.metadata, "time": record.time.isoformat()}
        return Document(id=record.id, content=record.text, meta=meta, score=score, embedding=embedding)
    sparse = found.get("sparse_embedding")
    return Document(
        id=str(record.metadata[KEY]),
        content=found.get("content", record.text),
        blob=_blob(found["blob"]) if "blob" in found else None,
        meta=host_documents.given_metadata(record, DOCUMENT),
        score=found.get("score") if score is None else score,
        embedding=embedding,
        sparse_embedding=None if sparse is None else SparseEmbedding.from_dict(dict(sparse)),
    )


def _blob(form: Mapping[str, Any]) -> ByteStream:
    return ByteStream(data=base64.b64decode(form["data"]), meta=dict(form["meta"]), mime_type=form["mime_type"])
