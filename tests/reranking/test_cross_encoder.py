"""The cross encoder with a real, if tiny and untrained, model of sentence-transformers."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmem.config import RerankerConfig
from devmem.reranking import open_reranker

pytestmark = pytest.mark.local_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    made = tmp_path_factory.mktemp("cross_encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "tea", "is", "hot", "cold", "rain"]
    (made / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab_file=str(made / "vocab.txt")).save_pretrained(made)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        num_labels=1,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(made)
    return made


def test_it_scores_pairs(folder: Path) -> None:
    reranker = open_reranker(RerankerConfig(type="cross_encoder", model_path=folder), folder)
    assert reranker is not None
    first = reranker.scores("tea", ["tea is hot", "rain is cold"])
    assert len(first) == 2
    assert first[0] != first[1]
    assert reranker.scores("tea", ["tea is hot", "rain is cold"]) == pytest.approx(first)
    assert reranker.scores("tea", []) == []
