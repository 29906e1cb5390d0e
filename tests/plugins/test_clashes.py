"""Two packages, or a package and code, that claim one name: the name fails, and both are named, whatever the plugin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import devmem
from devmem.config import EmbeddingConfig, RerankerConfig
from devmem.errors import CollectionError, DevmemError, EmbeddingError, PluginClashError, RerankerError
from devmem.models import register_embedding_provider, register_reranker
from devmem.models.embedding_providers import PROVIDERS
from devmem.models.reranking import RERANKERS, open_reranker
from devmem.storage import open_collection
from devmem.stores import Embedder, open_embedder
from devmem.testing import HashEmbedder

from .strangers import install


def jotter(_config: EmbeddingConfig) -> Embedder:
    return HashEmbedder()


class Kind(NamedTuple):
    word: str
    group: str
    use: Callable[[str], object]
    error: type[DevmemError]


KINDS = [
    Kind("store type", "devmem.stores", lambda name: devmem.plugins.StoreRegistry().get(name), PluginClashError),
    Kind(
        "embedding provider",
        "devmem.embeddings",
        lambda n: open_embedder(EmbeddingConfig(provider=n), shared=False),
        EmbeddingError,
    ),
    Kind(
        "reranker",
        "devmem.rerankers",
        lambda n: open_reranker(RerankerConfig(type=n, model="m"), Path()),
        RerankerError,
    ),
    Kind("URL scheme", "devmem.collections", lambda name: open_collection(f"{name}://host"), CollectionError),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.word)
def test_of_two_packages_neither_wins(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("two", "one"):
        point = {"jotter": f"{name}_pkg:make", name: f"{name}_pkg:make"}
        monkeypatch.syspath_prepend(install(tmp_path / name, f"{name}-dist", point, {}, group=kind.group))
    with pytest.raises(kind.error, match=rf"{kind.word} 'jotter' is claimed by one-dist 1\.0 and by two-dist 1\.0"):
        kind.use("jotter")
    with pytest.raises(DevmemError, match=rf"{kind.word} 'two' of two-dist 1\.0 cannot be loaded: ModuleNotFoundError"):
        kind.use("two")


@pytest.mark.parametrize(
    ("kind", "name", "register", "registry"),
    [
        (KINDS[1], "minilm", register_embedding_provider, PROVIDERS),
        (KINDS[2], "llm", register_reranker, RERANKERS),
    ],
    ids=["embedding provider", "reranker"],
)
def test_a_name_of_ours_that_code_takes_is_a_clash_with_us(
    kind: Kind, name: str, register: Callable[..., None], registry: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    register(name, lambda *_args: None)
    with pytest.raises(kind.error, match=rf"'{name}' is claimed by devmem-framework .* and by module {__name__}"):
        kind.use(name)


def test_of_two_modules_the_second_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROVIDERS, "_registered", {})
    PROVIDERS.register("jotter", jotter, "first")
    with pytest.raises(PluginClashError, match=f"claimed by module first and by module {__name__}"):
        register_embedding_provider("jotter", jotter)
