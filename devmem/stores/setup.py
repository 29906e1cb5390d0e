"""The arguments of a store type's factory: a store's declaration and the folders its paths are relative to."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from devmem.config import ChatConfig, ConfigModel, EmbeddingConfig
from devmem.embedding import Embedder, open_embedder
from devmem.llm import ChatModel, open_chat

C = TypeVar("C", bound=ConfigModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSetup:
    """Arguments of a store type's factory; the configuration in it is never changed."""

    name: str
    store_type: str
    config: ConfigModel
    """An instance of the store type's own configuration model."""
    base_dir: Path = field(default_factory=Path.cwd)
    """Where relative paths start: the workflow file's folder."""
    session_dir: Path | None = None
    """Where the files of `auto` paths are; None keeps such a store in memory."""
    open_embedder: Callable[[EmbeddingConfig], Embedder] = open_embedder
    open_chat: Callable[[ChatConfig], ChatModel] = open_chat
    """Opens the chat model that a store's `llm:` block names."""
    service_client: object = None
    """Client of the service behind the store that the caller made and closes; None has the store make its own."""
    clock: Callable[[], float] = time.time
    """The wall clock, in seconds since the epoch."""
    monotonic: Callable[[], float] = time.monotonic
    """Seconds of a clock that is never set, for backoff: a jump of the wall clock must not prolong a wait."""

    def config_as(self, model: type[C]) -> C:
        """Return the configuration as an instance of the store type's model.

        Raises:
            TypeError: the store was registered with another configuration model.
        """
        if not isinstance(self.config, model):
            raise TypeError(f"store {self.name!r} expects {model.__name__}, not {type(self.config).__name__}")
        return self.config

    def embedder(self, config: EmbeddingConfig) -> Embedder:
        """Open the embedding model that the configuration names; a relative `model_path` starts at `base_dir`.

        Raises:
            EmbeddingError: the configuration cannot work.
        """
        folder = config.params.model_path
        if folder is not None:
            found = config.params.model_copy(update={"model_path": self.base_dir / folder.expanduser()})
            config = config.model_copy(update={"params": found})
        return self.open_embedder(config)

    def location(self, path: str | None) -> str | None:
        """Resolve a configured path: None is memory, `auto` a session's file, a relative path starts at `base_dir`.

        A URL such as `postgresql://...` stays as it is.
        """
        if not path:
            return None
        if path == "auto":
            return str(self.session_dir / f"memory_{_file_name(self.name)}.db") if self.session_dir else None
        return path if "://" in path else str(self.base_dir / Path(path).expanduser())


def _file_name(name: str) -> str:
    """Return a file's name that no other store's name has: bytes of UTF-8 stand for what is no letter or digit."""
    return "".join(char if char.isalnum() or char in "-_." else _escaped(char) for char in name)


def _escaped(char: str) -> str:
    return "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
