"""mem0's `Memory` inside this process, with a local vector store (`mem0/memory/main.py`, mem0ai 2.0.0 to 2.2.1)."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from pydantic import JsonValue

from devmem.errors import Mem0Error, Mem0RejectedError, MissingExtraError
from devmem.redaction import hide
from devmem.stores import Embedder, StoreSetup
from devmem_stores.mem0.backend import PAGE, EntityIds, Page, Write
from devmem_stores.mem0.config import Mem0Config
from devmem_stores.mem0.failures import hide_in_logs, translated_errors
from devmem_stores.mem0.items import Record, read_record, read_records

EMBEDDER: Final = "devmem"
NO_LLM: Final = "devmem_none"
_FENCE: Final = re.compile(r"^```\w*\s*|\s*```$")


Failures: TypeAlias = list[Exception]
"""Errors inside mem0 during the current call, which mem0 itself would only log."""


class EmbedderForMem0:
    """A devmem embedder in the shape of `mem0.embeddings.base.EmbeddingBase`; mem0 makes it of its configuration."""

    def __init__(self, config: Any) -> None:  # noqa: ANN401 - mem0's BaseEmbedderConfig
        self.config = config
        self._embedder: Embedder
        self._failures: Failures
        self._embedder, self._failures = config.model

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Embed one text."""
        return self.embed_batch([text], memory_action)[0]

    def embed_batch(self, texts: Sequence[str], _memory_action: str | None = None) -> list[list[float]]:
        """Embed several texts."""
        try:
            return [[float(number) for number in row] for row in self._embedder.embed(list(texts))]
        except Exception as error:
            self._failures.append(error)
            raise


class NoLlm:
    """Stands where mem0 wants a language model and `infer: false` needs none."""

    def __init__(self, config: Any = None) -> None:  # noqa: ANN401 - mem0's BaseLlmConfig
        self.config = config

    def generate_response(self, *_arguments: object, **_options: object) -> str:
        """Refuse: nobody should have asked."""
        raise Mem0Error("setup", "ask a language model", "none is configured; give `oss.llm`")


class WatchedLlm:
    """A language model of mem0's whose failures and unusable answers are noted, because mem0 takes them for no facts.

    2.0.0 swallows an exception (`mem0/memory/main.py:_add_to_vector_store`); every version an answer that is no JSON.
    """

    def __init__(self, llm: Any, failures: Failures) -> None:  # noqa: ANN401 - mem0's LLMBase
        self._llm, self._failures = llm, failures
        self.config = llm.config

    @property
    def client(self) -> Any:  # noqa: ANN401 - of whatever package the model comes from
        """Return what the model's connections belong to; None for a model without any."""
        return getattr(self._llm, "client", None)

    def generate_response(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - passed through
        """Ask the model; what goes wrong is noted and raised."""
        try:
            answer = self._llm.generate_response(*arguments, **options)
        except Exception as error:
            self._failures.append(error)
            raise
        if (options.get("response_format") or {}).get("type") == "json_object" and not _is_extraction(answer):
            detail = "the language model's answer is not what mem0 asks for"
            self._failures.append(Mem0Error("answer", "extract memories", detail))
        return answer


def _is_extraction(answer: object) -> bool:
    """Whether mem0 can read the answer: `{"memory": [{"text": ...}, ...]}`, perhaps within a fence."""
    if not isinstance(answer, str):
        return False
    text = _FENCE.sub("", answer.strip())
    try:
        found = json.loads(text[text.find("{") : text.rfind("}") + 1], strict=False)
    except (json.JSONDecodeError, RecursionError):
        return False
    facts = found.get("memory") if isinstance(found, dict) else None
    return isinstance(facts, list) and all(isinstance(fact, dict) for fact in facts)


_LOCK: Final = threading.Lock()


def check_package() -> None:
    """Make sure that a fitting mem0 is installed, without importing it.

    Raises:
        MissingExtraError: it is not installed.
        Mem0Error: it is another major version.
    """
    try:
        installed = version("mem0ai") if "mem0" in sys.modules or find_spec("mem0") is not None else ""
    except PackageNotFoundError:
        installed = ""
    if not installed:
        raise MissingExtraError(
            feature="store type 'mem0'", package="mem0ai", extra="mem0", advice="(or: pip install mem0ai)"
        )
    if installed.split(".")[0] != "2":
        raise Mem0Error("setup", "start", f"mem0ai {installed} is installed, and devmem works with 2.x")


def load_mem0(*, telemetry: bool, folder: Path | None) -> ModuleType:
    """Import mem0.

    Args:
        telemetry: whether it may report its use.
        folder: takes the files that it keeps about itself; None makes a temporary one.

    Raises:
        MissingExtraError, Mem0Error: see `check_package`; or its telemetry cannot be switched any more.
    """
    with _LOCK:
        if "mem0" not in sys.modules:
            check_package()
            os.environ["MEM0_TELEMETRY"] = "True" if telemetry else "False"
            os.environ.setdefault("MEM0_DIR", str(folder or tempfile.mkdtemp(prefix="devmem-mem0-")))
        with warnings.catch_warnings():
            # mem0 changes the process's warning filters when it is imported, and its dependencies warn of each other.
            warnings.simplefilter("ignore")
            mem0 = importlib.import_module("mem0")
            reporting = importlib.import_module("mem0.memory.telemetry").MEM0_TELEMETRY
    hide_in_logs()
    if reporting and not telemetry:
        raise Mem0Error(
            "setup",
            "start",
            "mem0 was imported before with its telemetry on, and cannot be told otherwise any more: set "
            "MEM0_TELEMETRY=False before the program starts, or `telemetry: true` in the store's `config`",
        )
    return mem0


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
    """mem0 without a server; every method raises `Mem0Error`.

    mem0's local stores know no threads, so one call runs at a time.
    """

    def __init__(self, setup: StoreSetup, config: Mem0Config, embedder: Embedder | None, folder: Path) -> None:
        """Prepare mem0; it is opened by the first call.

        Args:
            setup: says where relative paths start.
            config: the store's.
            embedder: ours; None leaves the embedding to `oss.embedder`.
            folder: where mem0 keeps its vectors and history, unless `oss` says otherwise.
        """
        self._setup, self._config, self._embedder, self._folder = setup, config, embedder, folder
        for secret in _secrets(config.oss):
            hide(secret)
        self._failures: Failures = []
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
            raise Mem0Error("setup", operation, f"memory store {self._setup.name!r} was closed")
        if self._opened is None:
            mem0 = load_mem0(telemetry=self._config.telemetry, folder=self._folder)
            factories = importlib.import_module("mem0.utils.factory")
            factories.EmbedderFactory.provider_to_class.setdefault(EMBEDDER, f"{__name__}.{EmbedderForMem0.__name__}")
            factories.LlmFactory.register_provider(NO_LLM, f"{__name__}.{NoLlm.__name__}")
            try:
                with translated_errors(operation):
                    self._folder.mkdir(parents=True, exist_ok=True)
                    memory = mem0.Memory(self._mem0_config())
            except Mem0RejectedError as error:
                raise Mem0Error("setup", operation, f"mem0 refuses the configuration: {error.detail}") from None
            memory.llm = WatchedLlm(memory.llm, self._failures)
            self._opened = memory
        return self._opened

    def _mem0_config(self) -> Any:  # noqa: ANN401 - mem0's MemoryConfig
        base = importlib.import_module("mem0.configs.base")
        unknown = sorted(self._config.oss.keys() - base.MemoryConfig.model_fields.keys())
        if unknown:  # mem0 would not mention them
            known = ", ".join(sorted(base.MemoryConfig.model_fields))
            raise Mem0Error("setup", "start", f"`oss` has the unknown key {unknown[0]!r}; mem0 knows {known}")
        parts: dict[str, Any] = {"history_db_path": str(self._folder / "history.db"), **self._config.oss}
        dimension = 0
        if self._embedder is not None:
            # A model that does not say how long its vectors are is asked for one.
            dimension = self._embedder.identity.dimension or len(self._embedder.embed(["dimension"])[0])
            if not dimension:
                raise Mem0Error("model", "start", "the embedding model gave an empty vector")
            embedders = importlib.import_module("mem0.embeddings.configs")
            # Not validated, because mem0's list of providers is a closed one.
            parts["embedder"] = embedders.EmbedderConfig.model_construct(
                provider=EMBEDDER, config={"model": (self._embedder, self._failures), "embedding_dims": dimension}
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
        with self._lock, translated_errors(operation):
            self._failures.clear()
            try:
                yield self._memory(operation)
            except Exception as error:  # noqa: BLE001 - a stranger's code; `translated_errors` words it
                # What our parts saw says more than what mem0 made of it.
                raise (*self._failures, error)[0]  # noqa: B904 - as above
            if self._failures:
                raise self._failures[0]

    def search(self, text: str, ids: EntityIds, top_k: int, threshold: float | None) -> list[Record]:
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

    def page(self, ids: EntityIds, number: int, metadata: Mapping[str, str] | None = None) -> Page:
        """Return everything on the first page; mem0 has no others here."""
        found: dict[str, Record] = {}
        for filters in ids.alternatives():
            with self._asking("list memories") as memory:
                raw = memory.get_all(filters={**filters, **(metadata or {})}, top_k=_EVERYTHING)
            found |= {record.id: record for record in read_records(raw, "list memories")}
        return Page(records=tuple(found.values())[(number - 1) * PAGE :], total=len(found), more=False)

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

    def close(self) -> None:
        """Close mem0's files, so that another process can open them, and the connections of its parts."""
        with self._lock:
            self._closed = True
            opened, self._opened = self._opened, None
            if opened is None:
                return
            # `Memory.close` closes none of its parts' clients; its vector stores share one.
            parts = (getattr(opened, name, None) for name in _PARTS_WITH_CLIENTS)
            clients: dict[int, Any] = {
                id(one): one for part in parts if (one := getattr(part, "client", None)) is not None
            }
            with ExitStack() as closing:
                for client in clients.values():
                    if callable(getattr(client, "close", None)):
                        closing.callback(client.close)
                closing.callback(opened.close)


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
