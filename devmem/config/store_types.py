"""The installed store types, rerankers and embedding providers, as far as configuration needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from devmem.config.base import ConfigModel


class StoreTypes(Protocol):
    """The store types, rerankers and embedding providers that a workflow may name.

    The registry, which lives on a higher floor, is one.
    """

    def names(self) -> Sequence[str]:
        """Return the names of all known types; nothing is imported for it."""
        ...

    def config_model(self, name: str) -> type[ConfigModel]:
        """Return the model of a type's `config:` block.

        Raises:
            StoreTypeError: there is no such type, or its package cannot be used.
        """
        ...

    def summary(self, name: str) -> str:
        """Return one line for people about a type."""
        ...

    def rerankers(self) -> Sequence[str]:
        """Return what a `reranker:` block may give as its `type`; nothing is imported for it."""
        ...

    def embedding_providers(self) -> Sequence[str]:
        """Return what an `embedding:` block may give as its `provider`; nothing is imported for it."""
        ...

    def check_location(self, location: str, *, states: bool) -> None:
        """Check that a store's items, and its states beside them, can be kept at a URL; nothing is opened.

        Raises:
            DevmemError: they cannot; a `MissingExtraError` where a package is missing.
        """
        ...

    def load_plugin(self, module: str) -> None:
        """Import a module named under `plugins:`, so that what it registers is known.

        Raises:
            StoreTypeError: the module cannot be imported.
        """
        ...
