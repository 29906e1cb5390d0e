"""A Haystack document store over a memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from haystack import Document, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils.filters import document_matches_filter

import devmem
from devmem import Filter, Hit, Memory
from devmem.adapters.haystack.documents import DOCUMENT, document_of, metadata_key, text_form, translate
from devmem.adapters.hosts import KEY, collection_of, in_thread, is_reserved, named, nearest, source_of, widened
from devmem.memory import record_recall
from devmem.storage import SearchQuery, Weights, present

GIVEN: Final = {"provider": "given", "model": "haystack"}
"""The model of a store whose documents come with their vectors."""
Signal: TypeAlias = Literal["both", "words", "vector"]
"""Signals by which documents are ranked."""


class DevmemDocumentStore:
    """Documents in a memory: a file, a workflow's store, or a PostgreSQL database.

    Documents are searched by the vectors that they come with, by words, or by both; with a model of devmem's own
    (`embedding="minilm"`) none have to come. They are found within the given scope only, and one file may hold those of
    many users. Deleting is permanent. Thread-safe.
    """

    def __init__(
        self,
        place: str = ":memory:",
        *,
        embedding: str | Mapping[str, Any] | None = GIVEN,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        conversation: str | None = None,
    ) -> None:
        """Describe the store, which is opened on first use.

        Args:
            place: as for `devmem.open`: a file's path, `team.yaml#notes`, or a URL.
            embedding: as for `devmem.open`; by default documents and queries come with the vectors of any one model.
            user: whose documents they are.
            agent: likewise.
            session: likewise.
            conversation: likewise.
        """
        self._place, self._embedding = place, embedding
        self._scope = {"user": user, "agent": agent, "session": session, "conversation": conversation}
        self._lock = threading.Lock()
        self._opened: Memory | None = None

    @property
    def memory(self) -> Memory:
        """The memory, or the part of it that the scope reaches; opened on first use."""
        with self._lock:
            if self._opened is None:
                options = {} if "#" in self._place else {"embedding": self._embedding}
                self._opened = devmem.open(self._place, **options)  # type: ignore[arg-type]
            return self._opened.scoped(**{name: value for name, value in self._scope.items() if value is not None})

    def close(self) -> None:
        """Close the memory; it is opened again when it is used."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def to_dict(self) -> dict[str, Any]:
        """Return the store as a pipeline's YAML holds it."""
        embedding = dict(self._embedding) if isinstance(self._embedding, Mapping) else self._embedding
        return default_to_dict(self, place=self._place, embedding=embedding, **self._scope)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DevmemDocumentStore:
        """Return the store of a pipeline's YAML."""
        return default_from_dict(cls, data)

    # Documents.

    def count_documents(self) -> int:
        """Return the number of documents."""
        return self.memory.count(where=_DOCUMENTS)

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """Return the number of documents that match."""
        return sum(1 for _ in self._matching(filters))

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents that match, oldest first; raises Haystack's `FilterError`."""
        return list(self._matching(filters))

    def _matching(self, filters: Mapping[str, Any] | None) -> Iterator[Document]:
        found = translate(filters)
        for record in self.memory.scan(where=found.where & _DOCUMENTS):
            document = document_of(record)
            if found.is_exact or document_matches_filter(dict(filters or {}), document):
                yield document

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Store documents, all or none of them, and return the number of those that were written.

        Raises:
            DuplicateDocumentError: one is stored already; with the policies `NONE` and `FAIL`.
            ValueError: something else than documents is given, or JSON cannot hold a value of the metadata.
        """
        given: object = documents
        if not isinstance(given, list) or any(not isinstance(each, Document) for each in given):
            raise ValueError("`write_documents` takes a list of documents")
        by_id = {each.id: each for each in documents}
        repeats = len(documents) - len(by_id)
        stored = (record for part in named(DOCUMENT, by_id) for record in self.memory.scan(where=part))
        known = {str(record.metadata[KEY]) for record in stored}
        if policy in (DuplicatePolicy.NONE, DuplicatePolicy.FAIL) and (known or repeats):
            raise DuplicateDocumentError(f"stored already, or given twice: {', '.join(sorted(known)) or 'an id'}")
        if policy is DuplicatePolicy.SKIP:
            first = {each.id: each for each in reversed(documents)}
            by_id = {each: first[each] for each in by_id if each not in known}
        self.memory.add([text_form(document) for document in by_id.values()], source=source_of(DOCUMENT))
        return len(by_id) + (repeats if policy is DuplicatePolicy.OVERWRITE else 0)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents permanently; ids that are not there are passed over."""
        for part in named(DOCUMENT, document_ids):
            self.memory.forget(where=part)

    def delete_all_documents(self) -> None:
        """Delete all documents of the scope permanently."""
        self.memory.forget(where=_DOCUMENTS)

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents that match permanently; return their number."""
        return sum(self.memory.forget(where=part).items for part in self._exactly(filters))

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set metadata of the documents that match; return their number.

        Raises:
            ValueError: a name is reserved, or JSON cannot hold a value.
        """
        if wrong := [name for name in meta if is_reserved(name, DOCUMENT)]:
            raise ValueError(f"{wrong[0]!r} is a name of the memory's own; write the document again to change it")
        values = {name: text_form(Document(meta={name: value}))["metadata"][name] for name, value in meta.items()}
        parts = self._exactly(filters)
        found = sum(self.memory.count(where=part) for part in parts)
        for part in parts:
            self.memory.update(where=part, metadata=values)
        return found

    def _exactly(self, filters: Mapping[str, Any]) -> list[Filter]:
        """Return filters that admit the documents that match, and nothing else."""
        found = translate(filters)
        if found.is_exact:
            return [found.where & _DOCUMENTS]
        return list(named(DOCUMENT, (document.id for document in self._matching(filters))))

    # Metadata.

    def count_unique_metadata_by_filter(self, filters: dict[str, Any], metadata_fields: list[str]) -> dict[str, int]:
        """Return the number of distinct values of each field among the documents that match."""
        documents = list(self._matching(filters))
        return {field: len(_distinct(documents, field)) for field in metadata_fields}

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """Return the type of each field of the metadata: `keyword`, `int`, `float` or `boolean`."""
        types: dict[str, dict[str, str]] = {}
        for document in self._matching(None):
            for name, value in document.meta.items():
                if value is not None:
                    types[name] = {"type": _TYPES.get(type(value), "keyword")}
        return types

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """Return the least and the largest number of a field; of a field of texts alone, its first and last text."""
        key = metadata_key(f"meta.{_name(metadata_field)}")
        found = [value for value, _ in self.memory.count(by=f"metadata.{key}", where=_DOCUMENTS)]
        numbers = [value for value in found if isinstance(value, int | float) and not isinstance(value, bool)]
        ordered: Sequence[Any] = numbers or [value for value in found if isinstance(value, str)]
        return {"min": min(ordered), "max": max(ordered)} if ordered else {"min": None, "max": None}

    def get_metadata_field_unique_values(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """Return a page of the distinct values of a field, and the number of all; 1, 1.0, "1" and True differ."""
        term = (search_term or "").lower()
        values = _distinct(self._matching(filters), metadata_field)
        found = [value for value in values if term in str(value).lower()]
        return found[from_ : from_ + size], len(found)

    # Searching.

    def search(
        self,
        query: str = "",
        *,
        vector: Sequence[float] | None = None,
        signal: Signal = "both",
        filters: Mapping[str, Any] | None = None,
        top_k: int = 10,
        return_embedding: bool = False,
    ) -> list[Document]:
        """Return the best documents, best first, with their scores.

        Args:
            query: a question or words.
            vector: the query's vector; None has devmem's own model make it, where the store has one.
            signal: `both` ranks by all that devmem knows, `words` by BM25 alone, `vector` by the cosine alone.
            filters: of Haystack.
            top_k: maximum number of documents.
            return_embedding: whether the documents have their vectors.
        """
        found = translate(filters)
        where = found.where & _DOCUMENTS
        if top_k <= 0:
            return []
        began = time.perf_counter()
        hits = widened(
            lambda limit: self._hits(query, vector, signal, where, limit),
            lambda hit: found.is_exact or document_matches_filter(dict(filters or {}), document_of(hit.item)),
            top_k,
            filtered=not found.is_exact,
        )
        record_recall(self.memory, query, hits, host="haystack", began=began)
        # A search reads no vectors.
        whole = {record.id: record for record in self.memory.get(hit.item.id for hit in hits if return_embedding)}
        return [
            document_of(whole.get(hit.item.id) or hit.item, score=hit.score, with_embedding=return_embedding)
            for hit in hits
        ]

    def _hits(self, query: str, vector: Sequence[float] | None, signal: Signal, where: Filter, limit: int) -> list[Hit]:
        memory = self.memory
        if signal == "both" or (signal == "vector" and vector is None):
            return [*memory.search(query, vector=vector, where=where, limit=limit, collapse=False)]
        if signal == "vector":
            return nearest(memory, vector or (), limit=limit, where=where, name="query_embedding")
        asked = SearchQuery(
            text=query,
            where=memory.guard.matching(where),
            limit=limit,
            weights=Weights(similarity=0.0, lexical=1.0),
        )
        hits = collection_of(memory, "a document store").collection.search(asked)
        return [replace(hit, score=hit.lexical) for hit in hits if hit.lexical is not None]

    count_documents_async = in_thread(count_documents)
    count_documents_by_filter_async = in_thread(count_documents_by_filter)
    filter_documents_async = in_thread(filter_documents)
    write_documents_async = in_thread(write_documents)
    delete_documents_async = in_thread(delete_documents)
    delete_all_documents_async = in_thread(delete_all_documents)
    delete_by_filter_async = in_thread(delete_by_filter)
    update_by_filter_async = in_thread(update_by_filter)
    count_unique_metadata_by_filter_async = in_thread(count_unique_metadata_by_filter)
    get_metadata_fields_info_async = in_thread(get_metadata_fields_info)
    get_metadata_field_min_max_async = in_thread(get_metadata_field_min_max)
    get_metadata_field_unique_values_async = in_thread(get_metadata_field_unique_values)
    search_async = in_thread(search)


_DOCUMENTS: Final = Filter(metadata={DOCUMENT: present()})
_TYPES: Final = {bool: "boolean", int: "int", float: "float"}


def _name(field: str) -> str:
    return field.removeprefix("meta.")


def _distinct(documents: Iterable[Document], field: str) -> list[Any]:
    """Return the distinct values of a field, in order; 1, 1.0, "1" and True differ."""
    values = [document.meta.get(_name(field)) for document in documents]
    seen = {(str(value), type(value).__name__): value for value in values if value is not None}
    return [value for _, value in sorted(seen.items(), key=lambda one: one[0])]
