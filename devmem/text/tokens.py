"""Estimates of the number of tokens of a text, without the model's tokenizer."""

from __future__ import annotations

import re
from typing import Final

from devmem.text.patterns import lazy_pattern

# What byte-pair tokenizers do on average: a Latin word of up to about six letters is one token, punctuation another, a
# CJK character about one.
_PIECE: Final = lazy_pattern(r"[^\W_]{1,6}|[^\w\s\x80-\U0010ffff]|_", re.ASCII)


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text; errs on the high side for English, and counts 1 a character outside ASCII."""
    return len(_PIECE.findall(text)) + sum(1 for char in text if ord(char) > 127 and not char.isspace())
