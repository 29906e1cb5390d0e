"""Embedding providers that have one model only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_MODELS: Final[Mapping[str, tuple[str, str]]] = {
    "minilm": ("sentence-transformers", "all-MiniLM-L6-v2"),
    "e5": ("intfloat", "multilingual-e5-small"),
}
"""Publisher and name of the model."""


def only_model(provider: str) -> str | None:
    """Return the name of a provider's only model; None for a provider that has others."""
    return _MODELS[provider][1] if provider in _MODELS else None


def names_only_model(provider: str, model: str | None) -> bool:
    """Whether a configured model is the only one of a provider, with its publisher or without, or is left out."""
    publisher, only = _MODELS[provider]
    return model in (None, only, f"{publisher}/{only}")
