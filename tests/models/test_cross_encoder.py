"""The cross encoder with a real, if tiny and untrained, model of sentence-transformers."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmem.config import RerankerConfig
from devmem.models.reranking import open_reranker

pytestmark = pytest.mark.local_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    made = tmp_path_factory.mktemp("cross_encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "tea", "is", "hot", "cold", "rain"]
    tokenizer = Tokenizer(models.WordPiece({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(made)
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
