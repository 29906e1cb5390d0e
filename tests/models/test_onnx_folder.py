"""The `onnx` provider: what a model's folder says is done, and what it lacks is named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from devmem.errors import EmbeddingError, MissingExtraError, ModelNotFoundError
from devmem.models import TokenEmbedder, TokenEmbedding, query_embedder
from devmem.stores import Embedder, EmbeddingConfig, EmbeddingParams, open_embedder
from devmem.testing import EmbeddingProviderSuite

from .tiny_onnx import WIDTH, WORDS, table, write_dense, write_model

MEAN = {"1_Pooling/config.json": {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}}
CLS = {"1_Pooling/config.json": {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}}
PROMPTS = {"config_sentence_transformers.json": {"prompts": {"query": "query: ", "document": "passage: "}}}
COLBERT = [{"path": "", "type": "pylate.models.Transformer"}, {"path": "1_Dense", "type": "pylate.models.Dense"}]


def opened(folder: Path, model: str | None = None, **params: Any) -> Embedder:
    config = EmbeddingConfig(provider="onnx", model=model, params=EmbeddingParams(model_path=folder, **params))
    return open_embedder(config, shared=False)


def tokens_of(embedder: Embedder, text: str) -> TokenEmbedding:
    assert isinstance(embedder, TokenEmbedder)
    (made,) = embedder.embed_tokens([text])
    return made


def unit(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return found


def hidden(*words: str) -> np.ndarray[Any, Any]:
    """Token vectors that the tiny model makes of some words between [CLS] and [SEP]."""
    rows = table()[[2, *(4 + WORDS.index(word) for word in words), 3]]
    made: np.ndarray[Any, Any] = rows + 0.2 * rows.mean(axis=0)
    return made


class TestSuite(EmbeddingProviderSuite):
    @pytest.fixture
    def embedder(self, tmp_path: Path) -> Embedder:
        return opened(write_model(tmp_path / "tiny", {**MEAN, **PROMPTS}))


def test_pooling_is_that_of_the_folder(tmp_path: Path) -> None:
    expected = hidden("open", "settings")
    for name, files, row in (("mean", MEAN, expected.mean(axis=0)), ("cls", CLS, expected[0]), ("none", {}, None)):
        vector = opened(write_model(tmp_path / name, files)).embed(["Open settings"])[0]
        np.testing.assert_allclose(vector, unit(expected.mean(axis=0) if row is None else row), atol=1e-5)


def test_pooling_can_be_named(tmp_path: Path) -> None:
    folder = write_model(tmp_path, MEAN)
    vector = opened(folder, pooling="cls").embed(["Open settings"])[0]
    np.testing.assert_allclose(vector, unit(hidden("open", "settings")[0]), atol=1e-5)
    assert opened(folder, pooling="cls").identity != opened(folder).identity == opened(folder).identity


def test_prompts_of_the_folder_stand_before_questions_and_passages(tmp_path: Path) -> None:
    embedder = opened(write_model(tmp_path, {**MEAN, **PROMPTS}))
    for one, prompt in ((embedder, "passage"), (query_embedder(embedder), "query")):
        expected = hidden(prompt, ":", "open", "settings")
        made = tokens_of(one, "Open settings")
        np.testing.assert_allclose(made.vector, unit(expected.mean(axis=0)), atol=1e-5)
        assert made.words == ("Open", "settings")
        assert made.tokens.shape == (2, WIDTH)


def test_a_long_text_is_cut_where_the_folder_says(tmp_path: Path) -> None:
    embedder = opened(write_model(tmp_path, {"sentence_bert_config.json": {"max_seq_length": 4}}))
    np.testing.assert_allclose(embedder.embed(["open settings x x"]), embedder.embed(["open settings"]), atol=1e-6)


def test_a_dense_layer_behind_the_pooling_makes_the_vector(tmp_path: Path) -> None:
    weight = np.random.default_rng(1).normal(size=(5, WIDTH)).astype(np.float32)
    modules = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": "2_Dense", "type": "sentence_transformers.models.Dense"},
    ]
    folder = write_model(tmp_path, {**MEAN, "modules.json": modules})
    write_dense(folder / "2_Dense", weight, activation="Tanh")
    expected = np.tanh(hidden("open").mean(axis=0) @ weight.T)
    np.testing.assert_allclose(opened(folder).embed(["open"])[0], unit(expected), atol=1e-5)
    assert tokens_of(opened(folder), "open").tokens.shape == (1, WIDTH)


def test_a_colbert_model_projects_its_tokens(tmp_path: Path) -> None:
    """Nothing is taken off its token vectors: they were trained to be compared."""
    weight = np.random.default_rng(1).normal(size=(8, WIDTH)).astype(np.float32)
    folder = write_model(tmp_path, {"modules.json": COLBERT})
    write_dense(folder / "1_Dense", weight)
    expected = unit(hidden("open", "settings") @ weight.T)
    made = tokens_of(opened(folder), "open settings")
    np.testing.assert_allclose(made.tokens, expected[1:-1], atol=1e-5)


def test_a_projection_beside_the_encoders_weights_is_found(tmp_path: Path) -> None:
    weight = np.random.default_rng(1).normal(size=(8, WIDTH)).astype(np.float32)
    folder = write_model(tmp_path)
    write_dense(folder, weight)
    write_model(tmp_path, {"config.json": {"architectures": ["HF_ColBERT"]}})
    assert tokens_of(opened(folder), "open settings").tokens.shape == (2, 8)


def test_what_tokens_have_in_common_is_taken_off(tmp_path: Path) -> None:
    rows = table()
    plain = unit(rows) @ unit(rows).T
    made = tokens_of(opened(write_model(tmp_path)), "open settings choose language")
    assert np.median(plain) > 0.7
    assert abs(np.median((made.tokens @ made.tokens.T)[~np.eye(4, dtype=bool)])) < 0.5


def test_the_hubs_folder_and_a_named_graph_are_found(tmp_path: Path) -> None:
    hub = opened(write_model(tmp_path / "hub", graph="onnx/model.onnx"))
    assert hub.identity.name.startswith("onnx:hub@")
    named = opened(write_model(tmp_path / "named", graph="small.onnx"), model="small.onnx")
    np.testing.assert_allclose(named.embed(["open"]), hub.embed(["open"]), atol=1e-6)


def test_the_token_for_what_is_unknown_may_be_sentencepieces(tmp_path: Path) -> None:
    file = write_model(tmp_path) / "tokenizer.json"
    file.write_text(file.read_text("utf-8").replace("[UNK]", "<unk>"), "utf-8")
    assert tokens_of(opened(tmp_path), "open 发布会 决定").known < 0.5
    assert tokens_of(opened(tmp_path), "open settings").known == 1


def test_without_a_folder_the_parameter_is_named() -> None:
    with pytest.raises(EmbeddingError, match="model_path: FOLDER"):
        open_embedder(EmbeddingConfig(provider="onnx"))


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    (write_model(tmp_path) / missing).unlink()
    with pytest.raises(ModelNotFoundError, match=missing):
        opened(tmp_path).embed(["open"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "1_Pooling/config.json",
            {"pooling_mode_max_tokens": True},
            "pooling by max_tokens; possible are mean and CLS",
        ),
        ("1_Pooling/config.json", [], "expected a JSON object, found a list"),
        ("modules.json", {"a": 1}, "no list of modules"),
    ],
)
def test_what_a_folder_asks_for_in_vain_is_an_error(tmp_path: Path, name: str, content: Any, message: str) -> None:
    folder = write_model(tmp_path, {name: content})
    with pytest.raises(EmbeddingError, match=message):
        opened(folder).embed(["open"])


@pytest.mark.parametrize("damaged", ["model.onnx", "tokenizer.json"])
def test_damaged_files_are_named(tmp_path: Path, damaged: str) -> None:
    (write_model(tmp_path) / damaged).write_bytes(b"nothing of the kind")
    with pytest.raises(EmbeddingError, match="cannot be loaded"):
        opened(tmp_path).embed(["open"])


def test_a_missing_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"\[onnx\]"):
        opened(write_model(tmp_path)).embed(["open"])


def test_weights_in_a_file_of_their_own_tell_models_apart(tmp_path: Path) -> None:
    """A large graph names the file that has them, and is the same whatever they are."""
    names: list[str] = []
    for folder in (tmp_path / "one" / "model", tmp_path / "two" / "model"):
        graph = onnx.load(str(write_model(folder) / "model.onnx"))
        onnx.save(
            graph, str(folder / "model.onnx"), save_as_external_data=True, location="weights.bin", size_threshold=0
        )
        if names:
            weights = bytearray((folder / "weights.bin").read_bytes())
            weights[:4] = b"\x00\x00\x80\x3f"
            (folder / "weights.bin").write_bytes(weights)
        names.append(opened(folder).identity.name)
    assert names[0] != names[1]


@pytest.mark.parametrize("name", ["model.onnx", "weights.bin"])
def test_a_pointer_of_git_lfs_is_no_model(tmp_path: Path, name: str) -> None:
    folder = write_model(tmp_path)
    graph = onnx.load(str(folder / "model.onnx"))
    onnx.save(graph, str(folder / "model.onnx"), save_as_external_data=True, location="weights.bin", size_threshold=0)
    (folder / name).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 90387606\n")
    with pytest.raises(ModelNotFoundError, match=f"{name}: a pointer of Git LFS.*git lfs pull"):
        opened(folder).embed(["tea"])
