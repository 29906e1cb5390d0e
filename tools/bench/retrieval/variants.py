"""The variants that are compared: a store with its defaults, and variants of it that `--variant` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from devmem import MemoryBase, load_workflow, open_stores
from devmem.stores import MemoryQuery, QueryEmbedding
from tools.bench.retrieval.memo import EmbeddingMemo

_STORE: Final = "bench"
_DEFAULTS: Final = {"memory_path": "bench.db", "embedding": {"provider": "minilm"}}
_PLACES: Final = ("memory_path", "index_path", "outbox", "redis")
"""Keys of `config:` that say where a store is; each haystack needs an empty one."""
_SEARCH_KEYS: Final = {
    "similarity_threshold": float,
    "agent_role": str,
    "only_relevant": bool,
    "words": bool,
    "meaning": bool,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A way to keep items and to ask for them."""

    name: str
    type: str = "simple"
    config: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the store's `config:` that differ from a SQLite file with `minilm`; where it is, is not among them."""
    place: str | None = None
    """URL of the database that the store is in; None is a file in its folder."""
    search: Mapping[str, Any] = field(default_factory=dict)
    """`similarity_threshold`, `agent_role` and `only_relevant` of the query; `words: false` leaves its text out of
    the full-text search, `meaning: false` its embedding."""

    def query(self, asked: QueryEmbedding, top_k: int, asked_at: datetime | None = None) -> MemoryQuery:
        """Make the query; its text is that of `asked`."""
        options = {key: value for key, value in self.search.items() if key not in ("words", "meaning")}
        return MemoryQuery(
            text=asked.text if self.search.get("words", True) else "",
            limit=top_k,
            embedding=asked if self.search.get("meaning", True) else QueryEmbedding(""),
            asked_at=asked_at,
            **options,
        )

    @contextmanager
    def opened(self, folder: Path, memo: EmbeddingMemo) -> Iterator[MemoryBase]:
        """Open the store in a folder, from a workflow as a user would write it.

        Raises:
            ConfigError: the configuration is not one of the store type.
        """
        file = folder / "workflow.yaml"
        place = {} if self.place is None else {"memory_path": self.place}
        store = {"name": _STORE, "type": self.type, "config": {**_DEFAULTS, **self.config, **place}}
        file.write_text(yaml.safe_dump({"memory": [store]}, allow_unicode=True), encoding="utf-8")
        with open_stores(load_workflow(file), embedders=memo.open) as stores:
            yield stores[_STORE]


DEFAULT: Final = Variant(name="devmem")


def parse_variant(given: str) -> Variant:
    """Read `NAME={type: ..., config: {...}, search: {...}}`, the right side being YAML or JSON.

    Raises:
        ValueError: it is not that; the message says what would be.
    """
    name, equals, text = given.partition("=")
    try:
        raw = yaml.safe_load(text) if equals else None
    except yaml.YAMLError as error:
        raise ValueError(f"--variant {name}: what follows the = is not YAML: {error}") from error
    if not name.strip() or not isinstance(raw, dict):
        raise ValueError(f"--variant {given!r}: expected NAME={{config: {{...}}, search: {{...}}}}")
    _check_keys(name, raw, ("type", "config", "search"))
    config, search = _mapping(name, raw, "config"), _mapping(name, raw, "search")
    if (place := next((key for key in _PLACES if key in config), None)) is not None:
        raise ValueError(
            f"--variant {name}: config.{place}: leave it out; each haystack gets an empty store of its own, in a "
            "temporary file"
        )
    _check_keys(name, search, tuple(_SEARCH_KEYS))
    for key, value in search.items():
        wanted = _SEARCH_KEYS[key]
        if not isinstance(value, (int, float) if wanted is float else wanted) or (wanted is float and value is True):
            raise ValueError(f"--variant {name}: search.{key}: expected a {wanted.__name__}, found {value!r}")
    return Variant(name=name.strip(), type=str(raw.get("type") or "simple"), config=config, search=search)


def check(variant: Variant, folder: Path) -> None:
    """Raise `ConfigError` now rather than after another variant was measured for an hour."""
    with variant.opened(folder, EmbeddingMemo()):
        return


def _mapping(name: str, raw: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = raw.get(key) or {}
    if isinstance(value, dict):
        return value
    raise ValueError(f"--variant {name}: {key}: expected a mapping, found {value!r}")


def _check_keys(name: str, raw: Mapping[str, Any], known: tuple[str, ...]) -> None:
    unknown = [key for key in raw if key not in known]
    if unknown:
        raise ValueError(f"--variant {name}: unknown key {unknown[0]!r}; possible: {', '.join(known)}")
