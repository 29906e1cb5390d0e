"""Declarations of stores to their models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devmem.config.base import ConfigModel, mentions
from devmem.config.document import Path
from devmem.config.elements import Elements, note_name
from devmem.config.embedding import EmbeddingConfig
from devmem.config.placeholders import Placeholders, has_placeholder
from devmem.config.reflection import all_keys
from devmem.config.report import Report
from devmem.config.retrieval import RetrievalConfig
from devmem.config.rules import Rule
from devmem.config.store import StoreDeclaration
from devmem.config.store_types import StoreTypes
from devmem.config.validate import Validator
from devmem.config.wording import choices, did_you_mean, found, quoted
from devmem.config.workflow import unset_message
from devmem.errors import CollectionError, MissingExtraError, StoreTypeError

_OTHERS = "Others need their package installed, or their module under `plugins`."


class StoreReader:
    """Reads the stores that one document declares."""

    def __init__(
        self, report: Report, placeholders: Placeholders, validator: Validator, store_types: StoreTypes
    ) -> None:
        self._report, self._placeholders, self._validator = report, placeholders, validator
        self._store_types = store_types

    def read(self, elements: Elements, declared: dict[str, Path]) -> tuple[StoreDeclaration, ...]:
        """Return the stores that can be used; every name goes into `declared`, problems are reported.

        The elements' placeholders are expanded already.
        """
        stores = (self._read_store(value, path, declared) for path, value in elements)
        return tuple(store for store in stores if store is not None)

    def _read_store(self, value: object, path: Path, declared: dict[str, Path]) -> StoreDeclaration | None:
        if not isinstance(value, dict):
            self._report.error(path, f"expected a mapping with `name`, `type` and `config`, found {found(value)}")
            return None
        note_name(self._report, declared, value.get("name"), (*path, "name"), "store name")
        model = self._config_model(value, path)
        settings = {} if value.get("config") is None else value["config"]
        elsewhere = self._types_with
        config = self._validator.validate(model, settings, (*path, "config"), elsewhere=elsewhere) if model else None
        if model is not None and isinstance(settings, Mapping):
            self._check_plugins(model, settings, (*path, "config"))
        if config is not None:
            self._check_place(config, (*path, "config", "memory_path"))
        header = {**value, "config": config if config is not None else ConfigModel()}
        store = self._validator.validate(StoreDeclaration, header, path)
        return store if config is not None else None

    def _config_model(self, value: Mapping[Any, Any], path: Path) -> type[ConfigModel] | None:
        name, where = value.get("type"), (*path, "type")
        if not isinstance(name, str) or not name:
            return None  # StoreDeclaration says what is wrong with it
        if where in self._placeholders.missing:
            self._report.error(where, unset_message(self._placeholders.missing[where]), Rule.UNSET_VARIABLE)
            return None
        known = self._store_types.names()
        if name not in known:
            hint = f"unknown store type {quoted(name)}{did_you_mean(name, known)} Possible types: {choices(known)}."
            self._report.error(where, f"{hint} {_OTHERS}", Rule.UNKNOWN_NAME)
            return None
        try:
            return self._store_types.config_model(name)
        except StoreTypeError as error:
            self._report.error(where, str(error))
            return None

    def _check_place(self, config: ConfigModel, path: Path) -> None:
        """Refuse a URL that is misspelled, that nothing opens, or where the store cannot keep all that it has to."""
        location = getattr(config, "memory_path", None)
        # Nearly every path has neither, and needs no opener.
        if not isinstance(location, str) or not (":" in location or "=" in location):
            return
        if path in self._placeholders.missing or has_placeholder(location):
            return
        try:
            self._store_types.check_location(location, states=getattr(config, "keeps_states", False))
        except MissingExtraError as error:
            self._report.warn(path, str(error), Rule.MISSING_EXTRA)
        except CollectionError as error:
            self._report.error(path, str(error))

    def _types_with(self, key: object) -> str:
        """Return a remark that stores of other types have a key; empty where none has."""
        found: list[str] = []
        for name in self._store_types.names():
            try:
                model = self._store_types.config_model(name)
            except StoreTypeError:
                # A type that cannot be loaded offers nothing; the store that names it reports why.
                continue
            if key in all_keys([model]):
                found.append(repr(name))
        return f"; only stores of the type {' or '.join(found)} have it." if found else ""

    def _check_plugins(self, model: type[ConfigModel], settings: Mapping[Any, Any], path: Path) -> None:
        """Refuse rerankers and embedding providers that nobody offers."""
        for key, field in model.model_fields.items():
            if mentions(field.annotation, EmbeddingConfig):
                known = self._store_types.embedding_providers()
                self._check_name("embedding provider", settings, (key, "provider"), known, path)
            elif mentions(field.annotation, RetrievalConfig):
                known = self._store_types.embedding_providers()
                self._check_name("embedding provider", settings, (key, "tokens", "provider"), known, path)
                self._check_name("reranker", settings, (key, "reranker", "type"), self._store_types.rerankers(), path)

    def _check_name(
        self, kind: str, settings: Mapping[Any, Any], keys: Sequence[str], known: Sequence[str], path: Path
    ) -> None:
        name: object = settings
        for key in keys:
            name = name.get(key) if isinstance(name, Mapping) else None
        if not isinstance(name, str):
            return  # it is left out, or the validator says what is wrong with it
        where = (*path, *keys)
        if where in self._placeholders.missing:
            self._report.error(where, unset_message(self._placeholders.missing[where]), Rule.UNSET_VARIABLE)
        elif name not in known:
            written = self._report.document.nearest(where)
            if isinstance(written, str) and has_placeholder(written):
                # The value may be a secret that stands in the wrong place.
                shown = f"unknown {kind} in {quoted(written)}."
            else:
                shown = f"unknown {kind} {quoted(name)}{did_you_mean(name, known)}"
            hint = f"{shown} Possible: {choices(known)}."
            self._report.error(where, f"{hint} {_OTHERS}", Rule.UNKNOWN_NAME)
