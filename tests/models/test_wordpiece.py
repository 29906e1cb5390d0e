"""Our WordPiece gives the ids that the `tokenizers` package gives."""

from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from devmem.models.minilm import WordPiece, find_model, read_vocabulary
from tests.generated import examples

MAX_TOKENS = 256

TEXTS = [
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


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:20]))
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
