"""A vector store, a retriever and a history of messages for LangChain; needs the extra `langchain`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self, TypeAlias
from uuid import uuid4

import numpy as np
from pydantic import ConfigDict, PrivateAttr

import devmem
from devmem import Filter, Hit, Memory, MemoryItem, load_filter
from devmem.adapters.hosts import (
    KEY,
    HostHistory,
    collection_of,
    given_metadata,
    kept_metadata,
    metadata_key,
    named,
    nearest,
    require,
    role_of,
    shown,
    source_of,
)
from devmem.errors import EmbeddingError
from devmem.messages import Message
from devmem.storage import present

require("langchain_core", package="langchain-core", extra="langchain")

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import BaseMessage, convert_to_messages, message_to_dict, messages_from_dict
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

__all__ = ["DevmemChatMessageHistory", "DevmemRetriever", "DevmemVectorStore"]

DOCUMENT: Final = "langchain"
"""Metadata key that every document has."""
Wanted: TypeAlias = Filter | Mapping[str, Any] | None
"""A filter: `devmem.Filter`, or metadata with the values that they have, `{"topic": "launch", "stars": {">=": 3}}`."""
_HOST: Final = "langchain"
_DOCUMENTS: Final = Filter(metadata={DOCUMENT: present()})


def filter_of(wanted: Wanted) -> Filter:
    """Return a filter; raises `devmem.errors.FilterError` for what is none."""
    if isinstance(wanted, Filter):
        return wanted
    return load_filter({f"metadata.{metadata_key(name, DOCUMENT)}": value for name, value in (wanted or {}).items()})


def document_of(record: MemoryItem) -> Document:
    """Return the document of a record; of one that something else remembered, its text, metadata and time."""
    if DOCUMENT in record.metadata:
        return Document(
            id=str(record.metadata[KEY]), page_content=record.text, metadata=given_metadata(record, DOCUMENT)
        )
    return Document(
        id=record.id, page_content=record.text, metadata={**record.caller_metadata, "time": record.time.isoformat()}
    )


class DevmemVectorStore(VectorStore):
    """Documents in a memory, found by the vectors of any embeddings of LangChain, or by a model of devmem's own.

    They are found within the memory's scope only: `devmem.open("docs.db", ...).scoped(user="ann")`. Deleting is
    permanent.
    """

    def __init__(self, memory: Memory, embedding: Embeddings | None = None) -> None:
        """Take a memory; the caller closes it.

        Args:
            memory: a memory, or a scoped handle, which the store never leaves.
            embedding: makes the vectors, for a memory that was opened with
                `embedding={"provider": "given", "model": NAME}`; None leaves them to the memory's own model.

        Raises:
            TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
        """
        self._memory, self._embedding = memory.scoped(), embedding
        collection_of(memory, "a vector store")

    @property
    def embeddings(self) -> Embeddings | None:
        """The model of the vectors; None where the memory has its own."""
        return self._embedding

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
    ) -> list[str]:
        """Store texts, all or none of them, and return their ids; one with an id that is known takes its place.

        Args:
            texts: the texts.
            metadatas: of each text.
            ids: of each text; None makes one.

        Raises:
            ValueError: the numbers of texts, metadata and ids differ, or JSON cannot hold a value.
        """
        given = list(texts)
        metas = [{} for _ in given] if metadatas is None else metadatas
        names = [one or uuid4().hex for one in (ids if ids is not None else [None] * len(given))]
        if not len(given) == len(metas) == len(names):
            raise ValueError(f"{len(given)} texts, {len(metas)} metadata and {len(names)} ids do not fit together")
        vectors = self._embedding.embed_documents(given) if self._embedding and given else [None] * len(given)
        last = {name: at for at, name in enumerate(names)}
        self._memory.add(
            [
                {
                    "text": given[at],
                    "key": name,
                    "embedding": vectors[at],
                    "metadata": kept_metadata(metas[at], DOCUMENT, name, {}),
                }
                for name, at in last.items()
            ],
            source=source_of(DOCUMENT),
        )
        return names

    def delete(self, ids: list[str] | None = None) -> bool:
        """Delete documents permanently; ids that are not there are passed over, and None deletes all."""
        if ids is None:
            self._memory.forget(where=_DOCUMENTS)
        for part in named(DOCUMENT, ids or ()):
            self._memory.forget(where=part)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents of ids that are there, in the order of the ids."""
        wanted = dict.fromkeys(ids)
        records = (record for part in named(DOCUMENT, wanted) for record in self._memory.scan(where=part))
        found = {str(record.metadata[KEY]): document_of(record) for record in records}
        return [found[one] for one in wanted if one in found]

    def similarity_search(self, query: str, k: int = 4, *, filter: Wanted = None) -> list[Document]:
        """Return the documents that are most similar to a query, best first; `filter` narrows them, see `Wanted`."""
        return [document for document, _ in self.similarity_search_with_score(query, k, filter=filter)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Wanted = None
    ) -> list[tuple[Document, float]]:
        """Return the most similar documents with the cosine to the query, best first.

        A memory with a model of its own ranks by all that devmem knows, and the score is the search's.
        """
        where = filter_of(filter) & _DOCUMENTS
        if self._embedding is not None:
            hits = self._nearest(self._embedding.embed_query(query), k, filter)
        else:
            hits = shown(
                _HOST, self._memory, query, lambda: self._memory.search(query, limit=k, where=where, collapse=False)
            )
        return [(document_of(hit.item), hit.score) for hit in hits]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Wanted = None
    ) -> list[Document]:
        """Return the documents nearest to a vector, nearest first."""
        return [document_of(hit.item) for hit in self._nearest(embedding, k, filter)]

    def _nearest(self, vector: Sequence[float], k: int, wanted: Wanted) -> list[Hit]:
        where = filter_of(wanted) & _DOCUMENTS
        return shown(
            _HOST, self._memory, "", lambda: nearest(self._memory, vector, limit=k, where=where, name="embedding")
        )

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, *, filter: Wanted = None
    ) -> list[Document]:
        """Return documents that are similar to a query and differ from each other."""
        if self._embedding is None:
            raise EmbeddingError("a choice by vectors needs the `embedding` of the vector store")
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter=filter)

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, *, filter: Wanted = None
    ) -> list[Document]:
        """Return documents near a vector that differ from each other: the best `k` of `fetch_k`."""
        records = self._memory.get(hit.id for hit in self._nearest(embedding, max(k, fetch_k), filter))
        vectors = [record.vector for record in records]
        chosen = maximal_marginal_relevance(
            np.asarray(embedding, dtype=np.float32), [one for one in vectors if one is not None], lambda_mult, k
        )
        return [document_of(records[at]) for at in chosen]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda score: min(max(score, 0.0), 1.0)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        place: str = ":memory:",
        model: str = "langchain",
    ) -> Self:
        """Return a store of texts in a memory of its own.

        Args:
            texts: the texts.
            embedding: makes the vectors.
            metadatas: of each text.
            ids: of each text.
            place: where the memory is, see `devmem.open`.
            model: name of the embeddings' model, which tells its vectors from another's.
        """
        store = cls(devmem.open(place, embedding={"provider": "given", "model": model}), embedding)
        store.add_texts(texts, metadatas, ids=ids)
        return store


class DevmemRetriever(BaseRetriever):
    """Retrieves what is remembered by meaning, words and all else that devmem ranks by: documents and conversations."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    k: int = 5
    """Maximum number of documents."""
    filter: Filter | dict[str, Any] | None = None
    """Narrows them; see `Wanted`."""

    _memory: Memory = PrivateAttr()
    _embedding: Embeddings | None = PrivateAttr()

    def __init__(self, memory: Memory, *, embedding: Embeddings | None = None, **fields: Any) -> None:
        """Take a memory; the caller closes it.

        Args:
            memory: a memory, or a scoped handle, which the retriever never leaves.
            embedding: makes the vector of a query, for a memory whose model only LangChain has.
            fields: `k`, `filter`, and those of every retriever: `tags`, `metadata`.
        """
        super().__init__(**fields)
        self._memory, self._embedding = memory.scoped(), embedding

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        vector = self._embedding.embed_query(query) if self._embedding is not None and query.strip() else None
        limit = self.k if k is None else k
        where = filter_of(self.filter)
        hits = shown(
            _HOST, self._memory, query, lambda: self._memory.search(query, vector=vector, limit=limit, where=where)
        )
        return [document_of(hit.item) for hit in hits]


MESSAGE: Final = "langchain.message"
"""Metadata key of a message as it came, as JSON text."""
_ROLES: Final = {"human": "user", "ai": "assistant"}


class DevmemChatMessageHistory(BaseChatMessageHistory):
    """The messages of one conversation, which other programs find in the memory at the same time.

    Messages are appended as they come, an equal one later in the conversation too.
    """

    def __init__(self, session_id: str, memory: Memory) -> None:
        """Take the part of a memory that belongs to a conversation; the caller closes the memory.

        Args:
            session_id: name of the conversation, which is the `session` of its items' scope.
            memory: a memory, or a scoped handle, which the history never leaves.

        Raises:
            TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
            ValueError: the id is blank.
        """
        self.session_id = session_id
        self._history = HostHistory(_HOST, MESSAGE, memory, session_id)

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, oldest first."""
        return messages_from_dict(self._history.forms())

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages, all of them or, after an error, none."""
        self._history.add((_said(message), message_to_dict(message)) for message in convert_to_messages(messages))

    def clear(self) -> None:
        """Delete the messages permanently."""
        self._history.clear()


def _said(message: BaseMessage) -> Message:
    role = role_of(_ROLES.get(message.type, message.type))
    return Message(str(message.text), role=role, source=message.name or "")
