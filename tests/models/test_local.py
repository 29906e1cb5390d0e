"""The `local` provider without sentence-transformers; `test_local_model.py` runs a real model."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from devmem.errors import EmbeddingError, MissingExtraError, ModelNotFoundError
from devmem.stores import Embedder, EmbeddingConfig, EmbeddingParams, Vector, open_embedder


def open_local(folder: Path, model: str | None = None) -> Embedder:
    config = EmbeddingConfig(provider="local", model=model, params=EmbeddingParams(model_path=folder))
    return open_embedder(config, shared=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like a model's."""
    path = tmp_path / "my-model"
    path.mkdir()
    (path / "model.safetensors").write_bytes(bytes(range(256)) * 2000)
    return path


def test_without_a_folder_the_parameter_is_named() -> None:
    with pytest.raises(EmbeddingError, match="model_path: FOLDER"):
        open_embedder(EmbeddingConfig(provider="local"))


def test_a_folder_without_a_model_is_not_found(tmp_path: Path) -> None:
    embedder = open_local(tmp_path)
    with pytest.raises(ModelNotFoundError, match="no sentence-transformers model there"):
        _ = embedder.identity
    with pytest.raises(ModelNotFoundError, match="no sentence-transformers model there"):
        embedder.embed(["tea"])


def test_without_the_package_the_extra_and_torch_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"\[local\].*pip install torch==2\.13\.0"):
        open_local(folder).embed(["tea"])


def test_the_name_tells_the_folder_and_the_weights(folder: Path) -> None:
    name = open_local(folder).identity.name
    assert name.startswith("local:my-model@")
    assert open_local(folder).identity.name == name
    assert open_local(folder, model="tuned").identity.name == name.replace("my-model", "tuned")


@pytest.mark.parametrize("place", [0, 256_000, 511_999])
def test_other_weights_under_the_same_name_are_another_model(folder: Path, place: int) -> None:
    before = open_local(folder).identity
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[place] ^= 1
    weights.write_bytes(content)
    assert open_local(folder).identity != before


class FakeTransformer:
    """Stands in for `SentenceTransformer`: as many numbers as a text has characters, never of unit length."""

    def __init__(self, path: str, *, device: str, local_files_only: bool) -> None:
        if device == "broken":
            raise OSError("no such device")
        self.made_from = (path, local_files_only)

    def encode(self, texts: list[str], *, batch_size: int, prompt: str, **_options: Any) -> Vector:
        assert not prompt
        if "too much" in texts:
            raise RuntimeError("out of memory")
        return np.array([[len(text), batch_size] for text in texts], dtype=np.float16)


@pytest.fixture
def sentence_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("sentence_transformers")
    vars(package)["SentenceTransformer"] = FakeTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)


@pytest.mark.usefixtures("sentence_transformers")
def test_rows_are_given_unit_length(folder: Path) -> None:
    config = EmbeddingConfig(provider="local", params=EmbeddingParams(model_path=folder, batch_size=4))
    embedder = open_embedder(config, shared=False)
    for _ in range(2):
        vectors = embedder.embed(["abc"])
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, [[0.6, 0.8]], rtol=1e-6)


@pytest.mark.usefixtures("sentence_transformers")
def test_a_model_that_fails_names_folder_device_and_reason(folder: Path) -> None:
    config = EmbeddingConfig(provider="local", params=EmbeddingParams(model_path=folder, device="broken"))
    with pytest.raises(EmbeddingError, match="my-model: cannot be loaded on 'broken': no such device"):
        open_embedder(config, shared=False).embed(["abc"])
    with pytest.raises(EmbeddingError, match="my-model: the model failed: out of memory"):
        open_local(folder).embed(["too much"])
