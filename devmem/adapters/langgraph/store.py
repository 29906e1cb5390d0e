"""LangGraph's `BaseStore` over a memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
)
from langgraph.store.base.embed import EmbeddingsLambda

import devmem
from devmem import Filter, Memory
from devmem.adapters.hosts import collection_of, writing
from devmem.adapters.langgraph.items import (
    NAMESPACE,
    OTHERS,
    SOURCE,
    Namespace,
    Times,
    check_namespace,
    entry_of,
    item_id,
    item_of,
    namespace_of,
)
from devmem.adapters.langgraph.reading import Reader
from devmem.errors import EmbeddingUnavailableError
from devmem.memory import User
from devmem.storage import Unique, differs_from
from devmem.stores import CollectionMemory, ModelIdentity, Vector

_ANY_LABEL = "*"


def list_namespaces(memory: Memory, store: CollectionMemory, op: ListNamespacesOp) -> list[Namespace]:
    """Return the namespaces that have items, in order.

    Raises:
        ValueError: a condition matches by something else than a prefix or a suffix.
    """
    texts = store.values(f"metadata.{NAMESPACE}", memory.matching(Filter(source_name=SOURCE)))
    found = {namespace_of(str(text)) for text in texts}
    if memory.recent(1, where=Filter(source_name=differs_from(SOURCE))):
        found.add(OTHERS)
    matching = (each for each in found if all(_matches(each, condition) for condition in op.match_conditions or ()))
    cut = sorted({each[: op.max_depth] for each in matching})
    return cut[op.offset : op.offset + op.limit]


def _matches(namespace: Namespace, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    if condition.match_type == "prefix":
        labels = namespace[: len(path)]
    elif condition.match_type == "suffix":
        labels = namespace[len(namespace) - len(path) :]
    else:
        raise ValueError(f"{condition.match_type!r} is no match type; there are 'prefix' and 'suffix'")
    return all(wanted in (_ANY_LABEL, label) for wanted, label in zip(path, labels, strict=True))


def embedder_of(index: IndexConfig) -> LangChainEmbedder:
    """Return the embedder that an index configuration names: `embed` with vectors of the length `dims`.

    Raises:
        TypeError: it is an asynchronous function alone, which threads without an event loop cannot call.
    """
    model = ensure_embeddings(index.get("embed"))
    if isinstance(model, EmbeddingsLambda) and getattr(model, "func", None) is None:
        raise TypeError("`embed` is an async function; hand over a plain one, or an Embeddings object")
    return LangChainEmbedder(model, index["dims"])


class LangChainEmbedder:
    """An `Embedder` that asks a LangChain model."""

    def __init__(self, model: Embeddings, dimension: int, name: str | None = None) -> None:
        """Wrap a model.

        Args:
            model: LangChain's model.
            dimension: length of its vectors.
            name: identity that is recorded with the vectors; None takes the model's own name, or that of its class.
        """
        self._model = model
        known = name or getattr(model, "model", None) or getattr(model, "model_name", None) or type(model).__name__
        self._identity = ModelIdentity(name=f"langchain:{known}:{dimension}", dimension=dimension)

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the model; reading it calls nothing."""
        return self._identity

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts; each row of the result is of unit length, shape (len(texts), dimension).

        Raises:
            EmbeddingUnavailableError: the model failed, in whatever way its provider fails.
        """
        return self.embed_with(lambda: self._model.embed_documents(list(texts)), len(texts))

    def for_queries(self) -> _QueryEmbedder:
        """Return the embedder of the same model for questions."""
        return _QueryEmbedder(self, self._model)

    def embed_with(self, call: Callable[[], list[list[float]]], count: int) -> Vector:
        """Return the vectors of a call of the model, shape (count, dimension)."""
        try:
            raw = call()
        except Exception as error:
            raise EmbeddingUnavailableError(f"{self._identity.name}: {type(error).__name__}: {error}") from error
        vectors = np.asarray(raw, dtype=np.float32).reshape(count, -1)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors


class _QueryEmbedder:
    """The same model, asked as LangChain asks for queries."""

    def __init__(self, documents: LangChainEmbedder, model: Embeddings) -> None:
        self._documents, self._model = documents, model

    @property
    def identity(self) -> ModelIdentity:
        return self._documents.identity

    def embed(self, texts: Sequence[str]) -> Vector:
        return self._documents.embed_with(lambda: [self._model.embed_query(text) for text in texts], len(texts))


Scores: TypeAlias = Literal["relevance", "cosine"]
"""`relevance` ranks by meaning and words, as devmem does; `cosine` by the cosine of the embeddings alone."""

_WHOLE: Final = "$"
"""LangGraph's path of a whole value."""


class DevmemStore(BaseStore):  # type: ignore[misc] # LangGraph is not in the environment of the type checkers
    """Long-term memory of LangGraph agents in a memory that other programs use at the same time.

    ```python
    with DevmemStore.open("notes.db", user="ann") as store:
        graph = builder.compile(store=store)
    ```

    Puts of a batch are stored in one transaction after its reads. What others wrote into the memory is in the namespace
    `("devmem",)`, where it can be read and deleted.
    """

    supports_ttl = True

    __slots__ = ("_memory", "_reader", "_store", "index_config", "ttl_config")

    def __init__(
        self,
        memory: Memory,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        scores: Scores = "relevance",
    ) -> None:
        """Wrap an opened memory, whose embedding model counts; the caller closes it.

        Args:
            memory: a memory, or a scoped handle, which the store never leaves.
            index: `fields` names the parts of a value that are searched; without it all of its text is.
            ttl: minutes after which items expire, and whether reading them starts the time again.
            scores: what search results are ranked by.

        Raises:
            TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
        """
        self._memory = memory.unscoped()
        self._store = collection_of(memory, "a LangGraph store")
        self.index_config = index
        self.ttl_config = ttl
        self._reader = Reader(self._memory, self._store, by_cosine=scores == "cosine")

    @classmethod
    @contextmanager
    def open(
        cls,
        place: str | os.PathLike[str],
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        scores: Scores = "relevance",
        user: User = None,
    ) -> Iterator[DevmemStore]:
        """Open a memory by its path, as `devmem.open` does, and close it at the end.

        Args:
            place: path of a file, or `:memory:`.
            index: `embed` and `dims` name LangChain's embedding model; without them devmem's own is used.
            ttl: see the constructor.
            scores: see the constructor.
            user: whose items are meant; None is the unscoped ones.
        """
        model: Any = embedder_of(index) if index and index.get("embed") else "auto"
        with devmem.open(place, embedding=model) as memory:
            part = memory.unscoped() if user is None else memory.scoped(user=user)
            yield cls(part, index=index, ttl=ttl, scores=scores)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out the operations: the reads first, then the puts, of which the last one of a key counts.

        Raises:
            ValueError: a namespace, a filter or a value is none that can be stored.
            CollectionError: the memory cannot be read or written.
        """
        asked = list(ops)
        for op in asked:
            if isinstance(op, PutOp):
                check_namespace(op.namespace)
        puts = {(op.namespace, op.key): op for op in asked if isinstance(op, PutOp)}
        # Reads may start a time to live again.
        with writing(SOURCE, self._memory):
            results = [None if isinstance(op, PutOp) else self._read(op) for op in asked]
            self._write(list(puts.values()))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out the operations in a thread; see `batch`."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: GetOp | SearchOp | ListNamespacesOp) -> Result:
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, SearchOp):
            found = self._reader.search(op)
            if op.refresh_ttl:
                self._reader.refresh(found.items)
            return found.results
        if isinstance(op, ListNamespacesOp):
            return list_namespaces(self._memory, self._store, op)
        raise ValueError(f"{type(op).__name__} is no operation of a store")

    def _get(self, op: GetOp) -> Item | None:
        item = self._reader.get(op.namespace, op.key)
        if item is None:
            return None
        if op.refresh_ttl:
            self._reader.refresh([item])
        entry = entry_of(item)
        return Item(
            value=entry.value,
            key=entry.key,
            namespace=entry.namespace,
            created_at=entry.created_at,
            updated_at=entry.updated_at,
        )

    def _write(self, puts: Sequence[PutOp]) -> None:
        scope, now = self._memory.new_scope(), self._store.setup.clock()
        named = {item_id(op.namespace, op.key, scope): op for op in puts}
        known = {item.id: item for item in self._store.get(list(named))}
        items = []
        for name, op in named.items():
            if op.value is None:
                continue
            old = known.get(name)
            times = Times(now=now, created_at=old.created_at if old else now, ttl_minutes=op.ttl)
            items.append(item_of(op, name, self._fields(op), times, scope))
        if items:
            self._store.store_items(items, unique=Unique.ID, embeddings=self._store.stored_embeddings(items))
        deleted = {name: op for name, op in named.items() if op.value is None}
        ids = [*deleted, *(op.key for op in deleted.values() if op.namespace == OTHERS)]
        if ids:
            self._store.erase(ids=ids, where=self._memory.matching())

    def _fields(self, op: PutOp) -> Sequence[str] | None:
        """Return the parts of a value that are searched; None for all of its text."""
        if op.index is False:
            return ()
        fields = op.index or (self.index_config or {}).get("fields") or [_WHOLE]
        return None if _WHOLE in fields else fields
