"""mem0's `Memory` inside this process, with a local vector store (`mem0/memory/main.py`, mem0ai 2.0.0 to 2.2.1)."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from devmem.stores import Embedder, StoreSetup
from devmem_stores.mem0.backend import Page, Write
from devmem_stores.mem0.config import Mem0Config
from devmem_stores.mem0.error_translation import translated_errors
from devmem_stores.mem0.errors import Mem0RejectedError, Mem0SetupError
from devmem_stores.mem0.filters import Ids
from devmem_stores.mem0.items import Change, Record, read_history, read_record, read_records
from devmem_stores.mem0.oss_parts import EMBEDDER, NO_LLM, Watch, WatchedLlm, dimension_of, register_parts
from devmem_stores.mem0.package import load_mem0

_EVERYTHING: Final = 1_000_000
"""`Memory.get_all` knows no pages, only how many."""
_PARTS_WITH_CLIENTS: Final = (
    "llm",
    "embedding_model",
    "reranker",
    "vector_store",
    "_entity_store",
    "_telemetry_vector_store",
)
_SECRET_NAMES: Final = ("key", "token", "password", "secret")


class InProcessMem0:
    """A `Backend` without a server. mem0's local stores know no threads, so one call runs at a time."""

    def __init__(self, setup: StoreSetup, config: Mem0Config, embedder: Embedder | None, folder: Path) -> None:
        """Prepare mem0; it is opened by the first call.

        Args:
            setup: says where relative paths start.
            config: the store's.
            embedder: ours; None leaves the embedding to `oss.embedder`.
            folder: where mem0 keeps its vectors and history, unless `oss` says otherwise.
        """
        self._setup, self._config, self._embedder, self._folder = setup, config, embedder, folder
        self._secrets = tuple(_secrets(config.oss))
        self._watch = Watch()
        self._lock = threading.RLock()
        self._opened: Any = None
        self._closed = False

    @property
    def location(self) -> str:
        """Name and place of the vector store."""
        store = self._vector_store(dimension=0)
        where = store.get("config")
        place = (where.get("path") or where.get("url") or where.get("host")) if isinstance(where, dict) else None
        return f"{store.get('provider')}: {place or 'its usual place'}"

    def _memory(self, operation: str) -> Any:  # noqa: ANN401 - mem0 is imported when it is needed
        if self._closed:
            # Another thread was between two calls: mem0 opened again would keep the folder from everybody else.
            raise Mem0SetupError(operation, f"memory store {self._setup.name!r} was closed")
        if self._opened is None:
            mem0 = load_mem0(telemetry=self._config.telemetry, folder=self._folder, secrets=self._secrets)
            register_parts()
            try:
                with translated_errors(operation, *self._secrets):
                    self._folder.mkdir(parents=True, exist_ok=True)
                    memory = mem0.Memory(self._mem0_config())
            except Mem0RejectedError as error:
                raise Mem0SetupError(operation, f"mem0 refuses the configuration: {error.detail}") from None
            memory.llm = WatchedLlm(memory.llm, self._watch)
            self._opened = memory
        return self._opened

    def _mem0_config(self) -> Any:  # noqa: ANN401 - mem0's MemoryConfig
        base = importlib.import_module("mem0.configs.base")
        unknown = sorted(self._config.oss.keys() - base.MemoryConfig.model_fields.keys())
        if unknown:  # mem0 would not mention them
            known = ", ".join(sorted(base.MemoryConfig.model_fields))
            raise Mem0SetupError("start", f"`oss` has the unknown key {unknown[0]!r}; mem0 knows {known}")
        parts: dict[str, Any] = {"history_db_path": str(self._folder / "history.db"), **self._config.oss}
        dimension = 0
        if self._embedder is not None:
            embedders = importlib.import_module("mem0.embeddings.configs")
            dimension = dimension_of(self._embedder)
            # Not validated, because mem0's list of providers is a closed one.
            parts["embedder"] = embedders.EmbedderConfig.model_construct(
                provider=EMBEDDER, config={"model": (self._embedder, self._watch), "embedding_dims": dimension}
            )
        parts["vector_store"] = self._vector_store(dimension)
        if "llm" not in parts:
            llms = importlib.import_module("mem0.llms.configs")
            parts["llm"] = llms.LlmConfig.model_construct(provider=NO_LLM, config={})
        return base.MemoryConfig(**parts)

    def _vector_store(self, dimension: int) -> dict[str, Any]:
        """Return mem0's `vector_store` with a local path resolved, and the vectors' length (0: not known) filled in."""
        given = self._config.oss.get("vector_store")
        store: dict[str, Any] = dict(given) if isinstance(given, dict) else {"provider": "qdrant"}
        raw = store.get("config")
        config: dict[str, Any] = dict(raw) if isinstance(raw, dict) else {}
        if "path" in config:
            config["path"] = self._setup.location(str(config["path"]))
        elif given is None:
            # `on_disk` keeps qdrant from emptying the folder when it opens it.
            config |= {"path": str(self._folder / "qdrant"), "on_disk": True, "collection_name": "mem0"}
        if dimension and store.get("provider") in ("qdrant", "faiss"):
            config.setdefault("embedding_model_dims", dimension)
        return {**store, "config": config}

    @contextmanager
    def _asking(self, operation: str) -> Iterator[Any]:
        """Return mem0's memory; a failure that mem0 keeps to itself is raised at the end."""
        with self._lock, translated_errors(operation, *self._secrets):
            self._watch.take()
            try:
                yield self._memory(operation)
            except Exception as error:  # noqa: BLE001 - a stranger's code; `translated_errors` words it
                # What our parts saw says more than what mem0 made of it.
                raise self._watch.take() or error  # noqa: B904 - as above
            if (hidden := self._watch.take()) is not None:
                raise hidden

    def search(self, text: str, ids: Ids, top_k: int, threshold: float | None) -> list[Record]:
        """Search for each id in turn: `Memory.search` wants one outside of any `OR`."""
        found: dict[str, Record] = {}
        for filters in ids.alternatives():
            with self._asking("search") as memory:
                # mem0's own least score would hide what no threshold lets through.
                raw = memory.search(text, filters=dict(filters), top_k=top_k, threshold=max(threshold or 0.0, 0.0))
            for record in read_records(raw, "search"):
                found.setdefault(record.id, record)
        return sorted(found.values(), key=lambda record: -(record.score or 0.0))[:top_k]

    def add(self, write: Write) -> str | None:
        """Add one message of the user."""
        with self._asking("add") as memory:
            messages = [{"role": "user", "content": write.text}]
            metadata: dict[str, JsonValue] = dict(write.metadata)
            made = memory.add(messages, **write.ids.given(), infer=write.infer, metadata=metadata)
        first = next(iter(made.get("results") or ()), None) if isinstance(made, dict) else None
        return str(first["id"]) if isinstance(first, dict) and first.get("id") else None

    def page(self, ids: Ids, number: int, size: int, metadata: Mapping[str, str] | None = None) -> Page:
        """Return everything on the first page; mem0 has no others here."""
        found: dict[str, Record] = {}
        for filters in ids.alternatives():
            with self._asking("list memories") as memory:
                raw = memory.get_all(filters={**filters, **(metadata or {})}, top_k=_EVERYTHING)
            found |= {record.id: record for record in read_records(raw, "list memories")}
        start = (number - 1) * size
        records = list(found.values())
        return Page(records=tuple(records[start:]), total=len(records), more=False)

    def get(self, memory_id: str) -> Record | None:
        """Return one memory."""
        with self._asking("get") as memory:
            raw = memory.get(memory_id)
        return None if raw is None else read_record(raw, "get")

    def delete(self, memory_id: str) -> bool:
        """Delete one memory."""
        with self._asking("delete") as memory:
            if memory.get(memory_id) is None:
                return False
            memory.delete(memory_id)
        return True

    def delete_all(self, ids: Mapping[str, str]) -> None:
        """Delete every memory that has all of the ids."""
        with self._asking("delete all") as memory:
            memory.delete_all(**ids)

    def history(self, memory_id: str) -> list[Change]:
        """Return a memory's history."""
        with self._asking("history") as memory:
            raw = memory.history(memory_id)
        return read_history(raw, "history")

    def close(self) -> None:
        """Close mem0's files, so that another process can open them, and the connections of its parts."""
        with self._lock:
            self._closed = True
            if self._opened is None:
                return
            opened, self._opened = self._opened, None
            with ExitStack() as closing:
                for client in _clients(opened):
                    closing.callback(client.close)
                closing.callback(opened.close)


def _clients(memory: Any) -> Iterator[Any]:  # noqa: ANN401 - mem0's Memory
    """Return the clients of mem0's parts: `Memory.close` closes none of them."""
    seen: set[int] = set()
    for name in _PARTS_WITH_CLIENTS:
        client = getattr(getattr(memory, name, None), "client", None)
        # Its vector stores share one.
        if client is not None and callable(getattr(client, "close", None)) and id(client) not in seen:
            seen.add(id(client))
            yield client


def _secrets(part: object, *, secret: bool = False) -> Iterator[str]:
    """Return what stands under a key such as `api_key` in mem0's configuration."""
    if isinstance(part, Mapping):
        for key, value in part.items():
            yield from _secrets(value, secret=secret or str(key).lower().endswith(_SECRET_NAMES))
    elif isinstance(part, list):
        for value in part:
            yield from _secrets(value, secret=secret)
    elif secret and isinstance(part, str):
        yield part
