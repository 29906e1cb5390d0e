"""Parts for mem0's in-process `Memory`: our embedding models, a missing language model, and a watch on its own.

mem0's factories know their providers by name (`mem0/utils/factory.py`) and import them by dotted path: ours are added
under names of their own, as `LlmFactory.register_provider` is there for.
"""

from __future__ import annotations

import importlib
import json
import re
import threading
from collections.abc import Sequence
from typing import Any, Final

from devmem.stores import Embedder
from devmem_stores.mem0.errors import Mem0AnswerError, Mem0Error, Mem0SetupError

EMBEDDER: Final = "devmem"
NO_LLM: Final = "devmem_none"
_FENCE: Final = re.compile(r"^```\w*\s*|\s*```$")


class Watch:
    """Remembers what went wrong inside mem0 where mem0 would go on without it: it logs, and stores nothing."""

    def __init__(self) -> None:
        self._local = threading.local()

    def note(self, error: Exception) -> None:
        """Remember a failure of this thread's call."""
        if getattr(self._local, "failure", None) is None:
            self._local.failure = error

    def take(self) -> Exception | None:
        """Return and forget the first failure of this thread's call."""
        failure: Exception | None = getattr(self._local, "failure", None)
        self._local.failure = None
        return failure


class EmbedderForMem0:
    """A devmem embedder in the shape of `mem0.embeddings.base.EmbeddingBase`; mem0 makes it of its configuration."""

    def __init__(self, config: Any) -> None:  # noqa: ANN401 - mem0's BaseEmbedderConfig
        self.config = config
        self._embedder: Embedder
        self._watch: Watch
        self._embedder, self._watch = config.model

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Embed one text."""
        return self.embed_batch([text], memory_action)[0]

    def embed_batch(self, texts: Sequence[str], _memory_action: str | None = None) -> list[list[float]]:
        """Embed several texts."""
        try:
            return [[float(number) for number in row] for row in self._embedder.embed(list(texts))]
        except Exception as error:
            self._watch.note(error)
            raise


class NoLlm:
    """Stands where mem0 wants a language model and `infer: false` needs none."""

    def __init__(self, config: Any = None) -> None:  # noqa: ANN401 - mem0's BaseLlmConfig
        self.config = config

    def generate_response(self, *_arguments: object, **_options: object) -> str:
        """Refuse: nobody should have asked."""
        raise Mem0SetupError("ask a language model", "none is configured; give `oss.llm`")


class WatchedLlm:
    """A language model of mem0's whose failures and unusable answers are noted, because mem0 takes them for no facts.

    2.0.0 swallows an exception (`mem0/memory/main.py:_add_to_vector_store`); every version an answer that is no JSON.
    """

    def __init__(self, llm: Any, watch: Watch) -> None:  # noqa: ANN401 - mem0's LLMBase
        self._llm, self._watch = llm, watch
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
            self._watch.note(error)
            raise
        if (options.get("response_format") or {}).get("type") == "json_object" and not _is_extraction(answer):
            self._watch.note(
                Mem0AnswerError("extract memories", "the language model's answer is not what mem0 asks for")
            )
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


def register_parts() -> None:
    """Make our parts known to mem0's factories; doing it twice changes nothing."""
    factories = importlib.import_module("mem0.utils.factory")
    factories.EmbedderFactory.provider_to_class.setdefault(EMBEDDER, f"{__name__}.{EmbedderForMem0.__name__}")
    factories.LlmFactory.register_provider(NO_LLM, f"{__name__}.{NoLlm.__name__}")


def dimension_of(embedder: Embedder) -> int:
    """Return the length of the model's vectors; a model that does not say it is asked for one.

    Raises:
        Mem0Error: it gave none.
    """
    if embedder.identity.dimension is not None:
        return embedder.identity.dimension
    row = embedder.embed(["dimension"])[0]
    if not len(row):
        raise Mem0Error("start", "the embedding model gave an empty vector")
    return len(row)
