"""Prompts that a model wants before questions and passages, as its folder names them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from devmem.config.embedding import EmbeddingParams
from devmem.errors import EmbeddingError

_FILE: Final = "config_sentence_transformers.json"
_QUERY: Final = ("query",)
_PASSAGE: Final = ("passage", "document")
"""Names of prompts, as sentence-transformers has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """Texts that are put before questions and before what is searched."""

    query: str = ""
    passage: str = ""

    @property
    def suffix(self) -> str:
        """Part of the model's identity: other prompts make other vectors."""
        return f":{self.query}|{self.passage}" if self.query or self.passage else ""


def read_prompts(folder: Path, params: EmbeddingParams) -> Prompts:
    """Return the prompts of a model: those of the parameters, else those of its folder.

    Raises:
        EmbeddingError: the folder's file cannot be read.
    """
    found = read_json(folder / _FILE)
    named = found.get("prompts") or {}
    # pylate's models have `query_prefix` and `document_prefix`.
    query = _first(named, _QUERY) or found.get("query_prefix") or ""
    passage = _first(named, _PASSAGE) or found.get("document_prefix") or ""
    return Prompts(
        query=query if params.query_prefix is None else params.query_prefix,
        passage=passage if params.passage_prefix is None else params.passage_prefix,
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read an object from a file of a model's folder; empty where there is no such file.

    Raises:
        EmbeddingError: the file is no JSON object.
    """
    if not path.is_file():
        return {}
    try:
        found: object = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise EmbeddingError(f"{path}: cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise EmbeddingError(f"{path}: expected a JSON object, found a {type(found).__name__}")
    return found


def _first(prompts: Mapping[str, str], names: Sequence[str]) -> str:
    return next((prompts[name] for name in names if prompts.get(name)), "")
