"""Token vectors of each piece of a word, their codes, and the pieces that the `tokenizers` package gives too."""

from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from devmem.models import TokenEmbedder, TokenEmbedding
from devmem.models.embedder import Span, WordFinder, token_codes
from devmem.models.minilm import WordPiece, find_model, read_vocabulary
from devmem.stores import Embedder, EmbeddingConfig, EmbeddingParams, open_embedder
from tests.generated import examples

TEXTS = [
    "I like tea.",
    "Is the deployment's password unbelievably long?",
    "中文 and naïve [SEP] words",
    "word " * 300,
    "x",
]


def tokens_of(embedder: Embedder, texts: list[str]) -> list[TokenEmbedding]:
    assert isinstance(embedder, TokenEmbedder)
    return embedder.embed_tokens(texts)


def test_tokens_align_with_words(minilm: Embedder) -> None:
    """Each token names its word, a word as often as it has pieces, and all of them have unit length."""
    for made in tokens_of(minilm, TEXTS):
        assert made.tokens.shape == (len(made.words), 384)
        assert made.tokens.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(made.tokens, axis=1), 1, atol=1e-5)
    simple, asked, _, long, _ = tokens_of(minilm, TEXTS)
    assert simple.words == ("i", "like", "tea", ".")
    assert asked.words.count("unbelievably") > 1
    assert list(dict.fromkeys(asked.words)) == [
        "is", "the", "deployment", "'", "s", "password", "unbelievably", "long", "?",
    ]  # fmt: skip
    assert len(long.words) == 254


def test_how_much_of_a_text_the_model_knows(minilm: Embedder) -> None:
    english, strange = tokens_of(minilm, ["I like tea", "\U0001f9d9 \U0001f9da tea \U0001f9db"])
    assert english.known == 1
    assert strange.known == pytest.approx(0.25)


def test_a_text_that_the_model_cannot_see_has_no_tokens(minilm: Embedder) -> None:
    (made,) = tokens_of(minilm, ["\u200b\u200b"])
    assert made.tokens.shape == (0, 384)
    assert token_codes(made).shape == (0, 48)


def test_long_texts_in_pieces_have_the_vector_of_embed() -> None:
    """However a text's vector is made, it is one and the same; its tokens are those of its start."""
    params = EmbeddingParams(use_chunking=True, max_length=40)
    embedder = open_embedder(EmbeddingConfig(params=params))
    texts = ["short", "A long text about rain. Then it is about tea, and it goes on for a while."]
    made = tokens_of(embedder, texts)
    np.testing.assert_allclose(np.stack([one.vector for one in made]), embedder.embed(texts), atol=2e-6)
    assert "rain" in made[1].words
    assert "while" not in made[1].words


@given(text=st.text(max_size=80))
def test_words_are_as_many_as_ids(vocabulary: list[str], text: str) -> None:
    for most in (4, 256):
        pieces = WordPiece(vocabulary, max_tokens=most)
        assert len(pieces.words(text)) == len(pieces.encode(text)) - 2


def embedding(words: list[str], seed: int = 0) -> TokenEmbedding:
    rng = np.random.default_rng(seed)
    tokens = rng.standard_normal((len(words), 20)).astype(np.float32)
    return TokenEmbedding(vector=np.ones(20, dtype=np.float32), tokens=tokens, words=tuple(words))


def test_codes_are_signs_of_content_words() -> None:
    """Stop words and punctuation are left out; a bit says that a component is above 0."""
    made = embedding(["where", "is", "the", "umbrella", "?", "红", "kettle"])
    codes = token_codes(made)
    assert codes.shape == (3, 3)
    assert codes.dtype == np.uint8
    assert np.array_equal(np.unpackbits(codes, axis=1, count=20), made.tokens[[3, 5, 6]] > 0)


def test_a_repeated_word_has_one_code_for_each_piece() -> None:
    """That of the mean of their vectors."""
    made = embedding(["um##", "um##", "tea", "um##", "um##", "the", "tea", "um##"])
    means = [made.tokens[[0, 3, 7]].mean(axis=0), made.tokens[[1, 4]].mean(axis=0), made.tokens[[2, 6]].mean(axis=0)]
    assert np.array_equal(np.unpackbits(token_codes(made), axis=1, count=20), np.stack(means) > 0)


def test_a_text_of_stop_words_alone_keeps_them() -> None:
    assert len(token_codes(embedding(["to", "be", "or", "not"]))) == 1, "not is no stop word"
    assert len(token_codes(embedding(["it", "is", "."]))) == 3
    assert token_codes(embedding([])).shape == (0, 3)


def letters(text: str) -> list[Span]:
    return [(at, at + 1) for at in range(len(text)) if text[at] != " "]


@pytest.mark.parametrize(
    ("text", "spans", "unknown", "share"),
    [
        ("tea time", [(0, 3), (4, 8)], [], 1.0),
        ("unbelievable tea", [(0, 2), (2, 7), (7, 12), (13, 16)], [], 1.0),
        ("сестра tea", [*letters("сестра"), (7, 10)], [], 1 / 7),
        ("发布会改到六月", letters("发布会改到六月"), [], 1.0),
        ("发布会 tea", [(0, 1), (1, 2), (2, 3), (4, 7)], [0], 1 / 4),
        ("tea ☃ time", [(0, 3), (4, 5), (6, 10)], [1], 1 / 3),
        ("发布会。12", [(0, 1), (1, 2), (2, 3), (3, 4), (4, 6)], [0, 1], 0.0),
        ("12:30", [(0, 2), (2, 3), (3, 5)], [], 1.0),
        ("", [], [], 1.0),
    ],
)
def test_share_of_known_words(text: str, spans: list[Span], unknown: list[int], share: float) -> None:
    marks = [at in unknown for at in range(len(spans))]
    assert WordFinder(text).known_share(spans, marks) == pytest.approx(share)


MAX_TOKENS = 256

PIECES_OF = [
    "",
    " ",
    "Hello, world!",
    "UPPER lower MiXeD ΑΣ ΣΑΣ İstanbul straße ẞ \u212a",
    "Café naïve Zürich e\u0301 \u1e69 s\u0323\u0307 s\u0307\u0323",
    "don't $5+3=8 <a|b>^`~ a_b C:\\x https://e.com/?q=1&r=2#z",
    "def f(x):\n\treturn {'a': [1, 2.5e-3]}  # 100%",
    "我喜欢在早上喝绿茶。東京タワー、ひらがな㐀𠀀𫝀豈",
    "한국어 문장 조선말 \u1112\u1161\u11ab",
    "ภาษาไทยไม่มีช่องว่าง",
    "مرحبا بالعالم \u0627\u064b",
    "हिन्दी भाषा தமிழ் עִבְרִית Привет",
    "🎉 party 👩‍👩‍👧 🇩🇪 ❤\ufe0f",
    "tab\tnew\nline\r\n\u00a0nbsp\u2003em\u3000wide\u2028line\u2029para\u200bzero\u00adsoft",
    "\x00\x01\x0b\x0c\x1b\x1c\x1f\x7f\x80\x85\x9f a\x00b \ufeff\ufffd\ue000 \ufdd0",
    "[CLS] hi [MASK]x[SEP][PAD][UNK] [cls] [ CLS ] ##ing ##",
    "≠ \u037e \u1fef ½ ² ① ﬁ",
    "a" * 99,
    "a" * 100,
    "a" * 101,
    "x" * 150,
    "supercalifragilisticexpialidocious antidisestablishmentarianism qzxqzx",
    "word " * 253,
    "word " * 254,
    "word " * 255,
    "unaffable " * 300,
    "中" * 400,
]


def reference_of(folder: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    # The file cuts and pads to 128 tokens; sentence-transformers overrides both for this model.
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


FOLDER = find_model(None)
REFERENCE = reference_of(FOLDER)
OURS = WordPiece(read_vocabulary(FOLDER), max_tokens=MAX_TOKENS)


@cache
def changed_since_old_tables() -> set[str]:
    """Find the marks and punctuation that Unicode gained after the reference's tables were made (version 8)."""
    kinds = ("M", "P", "S", "Cf")
    chars = (chr(code) for code in range(0x110000))
    candidates = [char for char in chars if unicodedata.category(char).startswith(kinds)]
    return {char for char in candidates if REFERENCE.encode(f"a{char}b").ids != OURS.encode(f"a{char}b")}


@pytest.mark.parametrize("text", PIECES_OF, ids=lambda text: ascii(text[:20]))
def test_ids_are_those_of_the_reference(text: str) -> None:
    assert OURS.encode(text) == REFERENCE.encode(text).ids


@given(st.text(st.characters(exclude_categories=["Cs"]).filter(lambda char: char not in changed_since_old_tables())))
@settings(max_examples=examples(300), deadline=None)
def test_ids_are_those_of_the_reference_for_any_text(text: str) -> None:
    assert OURS.encode(text) == REFERENCE.encode(text).ids


def test_the_vocabulary_has_whole_words_alone() -> None:
    assert all(word in OURS.vocabulary for word in ("memory", "received"))
    assert not any(word in OURS.vocabulary for word in ("recieved", "unaffably", "Memory"))


def test_a_lone_surrogate_is_dropped() -> None:
    assert OURS.encode("a\ud800b") == OURS.encode("ab")
