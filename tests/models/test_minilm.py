"""The `minilm` provider gives the official model's vectors, on each backend and however it is called."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from math import erfc, sqrt
from pathlib import Path

import numpy as np
import pytest

from devmem.errors import EmbeddingError, MissingExtraError
from devmem.models.numpy_backend import _controller, gelu, limited_blas
from devmem.stores import Embedder, EmbeddingConfig, open_embedder

from .conftest import OpenMiniLM
from .golden import read_golden

ROOT = Path(__file__).parents[2]
TEXTS = [
    "I like tea.",
    "The deployment failed because the password had expired.",
    "x",
    "It rained all night. " * 20,
    "中文",
    "An invoice, two contracts and a blue folder.",
    "word " * 300,
]


def test_vectors_are_those_of_sentence_transformers(minilm: Embedder) -> None:
    texts, expected = read_golden()
    vectors = minilm.embed(texts)
    assert vectors.dtype == np.float32
    assert (vectors * expected).sum(axis=1).min() >= 0.99999
    np.testing.assert_allclose(vectors, expected, atol=2e-6)


def test_rows_have_unit_length(minilm: Embedder) -> None:
    np.testing.assert_allclose(np.linalg.norm(minilm.embed(TEXTS), axis=1), 1, atol=1e-6)


def test_a_text_gets_the_same_vector_alone_and_among_others(minilm: Embedder) -> None:
    alone = np.concatenate([minilm.embed([text]) for text in TEXTS])
    np.testing.assert_allclose(minilm.embed(TEXTS), alone, atol=2e-6)
    np.testing.assert_allclose(minilm.embed(TEXTS[::-1] * 3), np.concatenate([alone[::-1]] * 3), atol=2e-6)


def test_threads_do_not_disturb_one_another(minilm: Embedder) -> None:
    """Each gets the vectors of its own texts, which are others than those of its neighbours."""
    expected = minilm.embed(TEXTS)
    rows = [[n % len(TEXTS), (n + 3) % len(TEXTS)] for n in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for own, vectors in zip(rows, pool.map(lambda own: minilm.embed([TEXTS[n] for n in own]), rows), strict=True):
            np.testing.assert_allclose(vectors, expected[own], atol=2e-6)


def test_only_the_first_256_tokens_count(minilm: Embedder) -> None:
    first = "tea " * 254
    np.testing.assert_allclose(minilm.embed([first]), minilm.embed([first + "war " * 50]), atol=1e-6)


def test_no_texts_give_no_rows(minilm: Embedder) -> None:
    assert minilm.embed([]).shape == (0, 384)


EACH_AGAINST_THE_OTHER = pytest.mark.parametrize(
    ("backend", "minilm"), [("numpy", "onnx"), ("onnx", "numpy")], indirect=["minilm"]
)


@EACH_AGAINST_THE_OTHER
def test_batch_size_and_threads_change_no_vector(open_minilm: OpenMiniLM, minilm: Embedder, backend: str) -> None:
    embedder = open_minilm(backend=backend, batch_size=2, threads=2)
    np.testing.assert_allclose(embedder.embed(TEXTS), minilm.embed(TEXTS), atol=2e-6)


def test_backends_are_one_model(open_minilm: OpenMiniLM) -> None:
    identities = {open_minilm(backend=backend).identity for backend in ("auto", "numpy", "onnx")}
    assert {(identity.name, identity.dimension) for identity in identities} == {("minilm:all-MiniLM-L6-v2", 384)}


@EACH_AGAINST_THE_OTHER
def test_several_workers_change_no_vector(open_minilm: OpenMiniLM, minilm: Embedder, backend: str) -> None:
    several = open_minilm(backend=backend, workers=3, batch_size=2)
    np.testing.assert_allclose(several.embed(TEXTS * 2), np.concatenate([minilm.embed(TEXTS)] * 2), atol=2e-6)


def test_another_model_is_refused_at_once() -> None:
    with pytest.raises(EmbeddingError, match="provider: local"):
        open_embedder(EmbeddingConfig(model="all-mpnet-base-v2"))


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_its_own_names_are_accepted(name: str) -> None:
    assert open_embedder(EmbeddingConfig(model=name)).identity.dimension == 384


@pytest.fixture
def without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "devmem.models.onnx_backend", raising=False)


@pytest.mark.usefixtures("without_onnxruntime")
def test_onnx_without_onnxruntime_names_the_extra(open_minilm: OpenMiniLM) -> None:
    with pytest.raises(MissingExtraError, match=r"\[onnx\]") as caught:
        open_minilm(backend="onnx").embed(["x"])
    assert caught.value.extra == "onnx"


@pytest.mark.usefixtures("without_onnxruntime")
def test_auto_without_onnxruntime_runs_on_numpy(open_minilm: OpenMiniLM) -> None:
    assert open_minilm(backend="auto").embed(["x"]).shape == (1, 384)


def test_the_limit_on_blas_ends_with_the_last_of_overlapping_blocks() -> None:
    def threads() -> set[int]:
        # Not `threadpool_info()`: libraries that other tests loaded later are none of its business.
        return {library["num_threads"] for library in _controller().info()}

    before = threads()
    first, second = limited_blas(1), limited_blas(1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert threads() == {1}
    second.__exit__(None, None, None)
    assert threads() == before


@pytest.mark.parametrize("architecture", ["Haswell", None])
def test_vectors_are_the_same_whatever_kernels_blas_has(architecture: str | None) -> None:
    """The first run takes the weights as they are stored; later ones take them in an order that suits the kernels."""
    program = (
        "import numpy as np\n"
        "from devmem.config import EmbeddingConfig\n"
        "from devmem.models import open_embedder\n"
        "from tests.models.golden import read_golden\n"
        "texts, expected = read_golden()\n"
        "config = EmbeddingConfig.model_validate({'provider': 'minilm', 'params': {'backend': 'numpy'}})\n"
        "embed = open_embedder(config).embed\n"
        "first, again, batch = embed(texts[:1]), embed(texts[:1]), embed(texts)\n"
        "for vectors in (first, again, batch):\n"
        "    assert (vectors * expected[: len(vectors)]).sum(axis=1).min() >= 0.9999999\n"
        "    np.testing.assert_allclose(vectors, expected[: len(vectors)], atol=2e-6)\n"
    )
    forced = {"OPENBLAS_CORETYPE": architecture} if architecture else {}
    subprocess.run([sys.executable, "-c", program], env={**os.environ, **forced}, cwd=ROOT, check=True)


def test_gelu_is_exact_to_a_millionth() -> None:
    x = np.linspace(-10, 10, 4001, dtype=np.float32)
    expected = [float(value) * erfc(-float(value) / sqrt(2)) / 2 for value in x]
    np.testing.assert_allclose(gelu(x), expected, atol=1e-6)


def test_onnxruntime_records_no_telemetry(tmp_path: Path) -> None:
    """Its builds from 1.32 on leave a device's id and a database of events in the cache, and send them."""
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    program = (
        "from devmem.config import EmbeddingConfig\n"
        "from devmem.models import open_embedder\n"
        "config = EmbeddingConfig.model_validate({'provider': 'minilm', 'params': {'backend': 'onnx'}})\n"
        "print(open_embedder(config).embed(['rain']).shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**environment, **home}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "(1, 384)\n", done.stderr
    left = [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()]
    assert [name for name in left if "devmem" not in name] == []
