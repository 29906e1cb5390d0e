"""Encodings that are guessed: short texts are read as what people write, not as what happens to fit too."""

from __future__ import annotations

import pytest

from devmem.text.files import decode_text, describe_guess
from tests.cases import cases


@pytest.mark.parametrize(
    ("text", "encoding"),
    cases("text_encoding", "a_short_text_is_read_as_it_was_written"),
)
def test_a_short_text_is_read_as_it_was_written(text: str, encoding: str) -> None:
    data = text.encode(encoding)
    assert decode_text(data, None) == text
    assert "is not UTF-8 and was read as" in describe_guess(data)
