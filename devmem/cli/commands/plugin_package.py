"""A plugin package to start with, for `devmem init --plugin`; it passes its suite at once."""

from __future__ import annotations

import keyword
import shlex
from enum import StrEnum
from pathlib import Path
from string import Template
from typing import Final

from devmem.cli.terminal import Terminal
from devmem.errors import NAME as DISTRIBUTION
from devmem.errors import CommandError
from devmem.text.files import replace_file

_PROJECT: Final = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "$folder"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["$distribution"]
optional-dependencies = {dev = ["pytest>=8.3"]}

[project.entry-points."$group"]
$name = "$package:$factory"
"""
_STORE: Final = '''\
"""The `$name` store."""

from typing import ClassVar

from devmem import MemoryItem, MemoryWritePayload, WriteOutcome
from devmem.stores import (
    CollectionConfig,
    CollectionMemory,
    ConfigModel,
    RetentionConfig,
    answer_of,
    item_from,
    skipped,
)
from devmem.text import strip_frames


class ${Name}Config(RetentionConfig, CollectionConfig):
    """Configuration of a `$name` store."""

    prefix: str = ""
    """Text that begins every item."""


class ${Name}Memory(CollectionMemory):
    """Keeps what is said to an agent, and what it answers."""

    config_model: ClassVar[type[ConfigModel]] = ${Name}Config

    def compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        """Return the item to store, or why there is none."""
        said = (strip_frames(payload.inputs_text).strip(), answer_of(payload))
        text = "\\n".join(part for part in said if part)
        if not text:
            return skipped("nothing was said")
        prefix = self.setup.config_as(${Name}Config).prefix
        return item_from(payload, prefix + text, created_at=self.setup.clock())
'''
_STORE_TEST: Final = '''\
"""The contract of a store type, kept by `$name`."""

from devmem.testing import StoreSuite
from $package import ${Name}Memory


class Test${Name}(StoreSuite):
    store_class = ${Name}Memory
    config = {"memory_path": "memory.db"}
'''
_PROVIDER: Final = '''\
"""The embedding provider `$name`."""

from collections.abc import Sequence

import numpy as np

from devmem.config import EmbeddingConfig
from devmem.models import ModelIdentity
from devmem.stores import Vector


class ${Name}Embedder:
    """Texts of the same letters are similar; put a model in its place."""

    def __init__(self, config: EmbeddingConfig) -> None:
        """Take the `embedding:` block, whose `params.settings` are the provider's own; no model is loaded yet."""
        self.identity = ModelIdentity(name="$name:1", dimension=256)

    def embed(self, texts: Sequence[str]) -> Vector:
        """Return a unit vector for each text, shape (texts, dimension)."""
        rows = np.array([np.bincount(list(text.encode()), minlength=256) for text in texts], dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)
'''
_PROVIDER_TEST: Final = '''\
"""The contract of an embedding provider, kept by `$name`."""

import pytest

from devmem.config import EmbeddingConfig
from devmem.testing import EmbeddingProviderSuite
from $package import ${Name}Embedder


class Test${Name}(EmbeddingProviderSuite):
    @pytest.fixture
    def embedder(self) -> ${Name}Embedder:
        return ${Name}Embedder(EmbeddingConfig(provider="$name"))
'''


class Plugin(StrEnum):
    """Kinds of plugins that a package can be written for."""

    STORE = "store"
    PROVIDER = "provider"


def write_plugin(terminal: Terminal, kind: Plugin, folder: Path) -> None:
    """Write the package of a new store type or embedding provider, whose name is that of the folder."""
    from devmem.plugins import registry

    name = folder.name
    if kind is Plugin.STORE:
        taken, what, parts = registry.names(), "store type", ("devmem.stores", "Memory", _STORE, _STORE_TEST)
    else:
        taken, what = registry.embedding_providers(), "embedding provider"
        parts = ("devmem.embeddings", "Embedder", _PROVIDER, _PROVIDER_TEST)
    group, ending, source, test = parts
    if not (name.isascii() and name.isidentifier() and name == name.lower()) or keyword.iskeyword(name):
        raise CommandError(f"{name!r} cannot be the name of a {what}: use small letters, digits and _, as in my_notes.")
    if name in taken:
        raise CommandError(f"the {what} {name!r} already exists; choose another name.")
    if folder.exists():
        raise CommandError(f"{folder} already exists and was not changed; name another folder.")
    package, title = f"devmem_{name}", "".join(part.capitalize() for part in name.split("_"))
    words = {
        "name": name, "Name": title, "package": package, "group": group, "factory": f"{title}{ending}",
        "folder": f"devmem-{name.replace('_', '-')}", "distribution": DISTRIBUTION,
    }  # fmt: skip
    files = {"pyproject.toml": _PROJECT, f"{package}/__init__.py": source, f"tests/test_{name}.py": test}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        replace_file(folder / path, [Template(text).substitute(words).encode("utf-8")])
    terminal.report("note", f"written to {folder}")
    terminal.print(f"cd {shlex.quote(str(folder))} && pip install --editable '.[dev]' && pytest")
