"""Store types that no package has to be installed for, and documents to read with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field, SecretStr, field_validator, model_validator

from devmem.config import ConfigModel, EmbeddingConfig
from devmem.errors import BrokenPluginError, CollectionError, PluginError


class NotesConfig(ConfigModel):
    """Settings of a store like `simple`."""

    memory_path: str | None = None
    """Where the items live."""
    embedding: EmbeddingConfig | None = None
    """Which model makes the vectors."""
    max_items: int = Field(default=1000, gt=0)
    """Items to keep."""
    weights: dict[str, float] = Field(default_factory=dict, json_schema_extra={"advanced": True})
    """Weight of each signal."""
    strict: bool = False
    """Refuse what does not fit."""
    tags: str | list[str] = Field(default_factory=list)
    """One tag or several."""


class SourceConfig(ConfigModel):
    """A folder to read."""

    path: str
    """The folder."""
    file_types: tuple[str, ...] = ()
    """Endings to take; none means all."""
    recursive: bool = True
    """Look into folders below."""


class FilesConfig(ConfigModel):
    """Settings of a store like `file`, which is never written."""

    read_only: ClassVar[bool] = True

    file_sources: tuple[SourceConfig, ...] = Field(min_length=1)
    """Folders to read."""
    embedding: EmbeddingConfig | None = None
    """Which model makes the vectors."""


class CloudConfig(ConfigModel):
    """Settings of a store behind a service."""

    api_key: SecretStr
    """Key of the service."""
    session: SecretStr | None = None
    """A secret whose name does not say so."""
    params: dict[str, str] = Field(default_factory=dict)
    """Anything."""

    @model_validator(mode="after")
    def _refuse_params(self) -> CloudConfig:
        if "refuse" in self.params:
            raise ValueError(f"cannot use {self.params}")
        if "explode" in self.params:
            raise RuntimeError(f"a bug that prints {self.api_key.get_secret_value()}")
        return self

    @field_validator("api_key")
    @classmethod
    def _refuse_short_keys(cls, key: SecretStr) -> SecretStr:
        if len(key.get_secret_value()) < 8:
            raise ValueError(f"{key.get_secret_value()} is too short for a key")
        return key


class TreeConfig(ConfigModel):
    """Settings that contain themselves."""

    children: tuple[TreeConfig, ...] = ()
    """Further trees."""


class FakeTypes:
    """Four store types that work and one that does not, as a registry would offer them."""

    def __init__(self, **more: type[ConfigModel]) -> None:
        self.models: dict[str, type[ConfigModel]] = {
            "notes": NotesConfig,
            "files": FilesConfig,
            "cloud": CloudConfig,
            **more,
        }
        self.plugins: list[str] = []

    def names(self) -> Sequence[str]:
        return [*self.models, "broken"]

    def config_model(self, name: str) -> type[ConfigModel]:
        if name == "broken":
            raise BrokenPluginError("store type", name, "acme 1.0", "its package needs libacme")
        return self.models[name]

    def summary(self, name: str) -> str:
        if name == "broken":
            raise BrokenPluginError("store type", name, "acme 1.0", "its package needs libacme")
        return f"Keeps {name}."

    def rerankers(self) -> Sequence[str]:
        return ["late_interaction", "none", "acme", *(["acme_plugin"] if self.plugins else [])]

    def embedding_providers(self) -> Sequence[str]:
        return ["local", "minilm", "openai", *(["acme_model"] if self.plugins else [])]

    def guard_checks(self) -> Sequence[str]:
        return ["orders", "llm"]

    def check_location(self, location: str, *, states: bool) -> None:
        if not location.startswith("known://"):
            raise CollectionError(location, "nobody opens this.")

    def load_plugin(self, module: str) -> None:
        if module != "acme.stores":
            raise PluginError(f"no module {module}")
        self.plugins.append(module)
        self.models["acme"] = NotesConfig


_WORKFLOWS = Path(__file__).parents[1] / "data/workflows"
OWN = (_WORKFLOWS / "own.yaml").read_text(encoding="utf-8")

DEVALL = (_WORKFLOWS / "devall.yaml").read_text(encoding="utf-8")
