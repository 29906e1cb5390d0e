"""The reranker protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from devmem.config import RerankerConfig


@runtime_checkable
class Reranker(Protocol):
    """Scores texts for a question; safe to call from several threads."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Score each text, higher for a better fit; only scores of the same call can be compared.

        Raises:
            RerankerError: there are no scores; the error says why.
        """
        ...


RerankerFactory: TypeAlias = Callable[[RerankerConfig, Path], Reranker]
"""Makes a reranker from its configuration and the folder where relative paths start, without loading a model."""
