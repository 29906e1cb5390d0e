"""Encodings that are guessed: short texts are read as what people write, not as what happens to fit too."""

from __future__ import annotations

import pytest

from devmem.text.files import decode_text, describe_guess


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Müller\n", "cp1252"),
        ("café;x\n", "cp1252"),
        ("Größe", "cp1252"),
        ("señor", "latin-1"),
        ("The plan — as agreed", "cp1252"),
        ("Le café est fermé à midi; on y va à pied.", "cp1252"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy.", "cp1250"),
        ("Привет мир", "cp1251"),
        ("Съешь же ещё этих мягких французских булок", "koi8-r"),
        ("会议改到星期五", "gb18030"),
        ("小明的电话是 12345, 住在北京", "gb18030"),
        ("會議改到星期五", "big5"),
        ("会議は金曜日です", "shift_jis"),
        ("회의는 금요일", "euc_kr"),
    ],
)
def test_a_short_text_is_read_as_it_was_written(text: str, encoding: str) -> None:
    data = text.encode(encoding)
    assert decode_text(data, None) == text
    assert "is not UTF-8 and was read as" in describe_guess(data)
