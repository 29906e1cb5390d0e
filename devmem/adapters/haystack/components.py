"""Components of Haystack pipelines: retrievers of documents, and a writer and a retriever of what was said."""

from __future__ import annotations

from typing import Any, ClassVar

from haystack import Document, component
from haystack.dataclasses import ChatMessage
from haystack.document_stores.types import FilterPolicy, apply_filter_policy

from devmem.adapters.haystack.documents import document_of
from devmem.adapters.haystack.store import DevmemDocumentStore, Signal
from devmem.adapters.hosts import in_thread, recalled, remember, role_of
from devmem.messages import Message


class _Retriever:
    """A component that returns documents of a store: filters, and how many at most."""

    signal: ClassVar[Signal]

    def __init__(
        self,
        document_store: DevmemDocumentStore,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        return_embedding: bool = False,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        """Take the store.

        Args:
            document_store: holds the documents.
            filters: of every run.
            top_k: maximum number of documents.
            return_embedding: whether documents have their vectors.
            filter_policy: whether the filters of a run replace those above, or narrow them.

        Raises:
            ValueError: `top_k` is not above 0.
        """
        if top_k <= 0:
            raise ValueError(f"`top_k` is above 0, not {top_k}")
        self.document_store, self.filters, self.top_k = document_store, filters, top_k
        self.return_embedding = return_embedding
        self.filter_policy = FilterPolicy(filter_policy).value

    def _found(
        self, query: str, vector: list[float] | None, filters: dict[str, Any] | None, top_k: int | None
    ) -> dict[str, list[Document]]:
        chosen = apply_filter_policy(FilterPolicy(self.filter_policy), self.filters, filters)
        documents = self.document_store.search(
            query,
            vector=vector,
            signal=self.signal,
            filters=chosen,
            top_k=self.top_k if top_k is None else top_k,
            return_embedding=self.return_embedding,
        )
        return {"documents": documents}


@component
class DevmemHybridRetriever(_Retriever):
    """Retrieves documents by meaning, words and all else that devmem ranks by.

    The query's vector comes from an embedder before it; a store with a model of devmem's own needs none.
    """

    signal = "both"

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        query_embedding: list[float] | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Return `documents`, best first."""
        return self._found(query, query_embedding, filters, top_k)

    run_async = in_thread(run)


@component
class DevmemKeywordRetriever(_Retriever):
    """Retrieves documents by the words of a query alone (BM25)."""

    signal = "words"

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return `documents`, best first."""
        return self._found(query, None, filters, top_k)

    run_async = in_thread(run)


@component
class DevmemEmbeddingRetriever(_Retriever):
    """Retrieves documents by the cosine of their vectors and the query's alone."""

    signal = "vector"

    @component.output_types(documents=list[Document])
    def run(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return `documents`, nearest first."""
        return self._found("", query_embedding, filters, top_k)

    run_async = in_thread(run)


@component
class DevmemMemoryWriter:
    """Remembers the messages of a conversation: new ones, or with `history` what is new in the conversation so far."""

    def __init__(self, document_store: DevmemDocumentStore, history: bool = False) -> None:
        """Take the store.

        Args:
            document_store: in whose memory and scope the messages are kept.
            history: whether a run is given the whole conversation, see `Memory.add`; then it needs a session.
        """
        self.document_store, self.history = document_store, history

    @component.output_types(messages_written=int)
    def run(self, messages: list[ChatMessage], session: str | None = None) -> dict[str, int]:
        """Remember messages and return `messages_written`, the number of those that say something.

        Args:
            messages: of a conversation, oldest first.
            session: which conversation it is.

        Raises:
            ValueError: a history has no session.
        """
        if self.history and session is None:
            raise ValueError("a history needs the `session` that it is of: without it, equal conversations are one")
        said = [Message(each.text, role=role_of(each.role)) for each in messages if (each.text or "").strip()]
        remember("haystack", self.document_store.memory, said, session=session, history=self.history)
        return {"messages_written": len(said)}


@component
class DevmemMemoryRetriever:
    """Recalls what was said or stored before: as documents, and as one block for a prompt."""

    def __init__(self, document_store: DevmemDocumentStore, top_k: int = 5, token_budget: int = 2000) -> None:
        """Take the store.

        Args:
            document_store: in whose memory and scope it searches.
            top_k: maximum number of memories.
            token_budget: maximum size of the block, in estimated tokens.
        """
        self.document_store, self.top_k, self.token_budget = document_store, top_k, token_budget

    @component.output_types(documents=list[Document], block=str)
    def run(self, query: str, messages: list[ChatMessage] | None = None) -> dict[str, Any]:
        """Return `documents`, best first, and `block`, their text for a prompt.

        Args:
            query: a question or words.
            messages: what the prompt has already, which is not recalled.
        """
        memory = self.document_store.memory
        shown = [each.text or "" for each in messages or []]
        block = recalled("haystack", memory, query, shown=shown, limit=self.top_k, token_budget=self.token_budget)
        hits = [hit for hit in memory.search(query, limit=self.top_k + len(shown)) if hit.text not in shown]
        documents = [document_of(hit.item, score=hit.score, with_embedding=False) for hit in hits[: self.top_k]]
        return {"documents": documents, "block": block}
