"""Every string has a UTF-8 form, and no two have the same."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from devmem.model.items import encodable, original

# What collides easily: surrogates, the escapes that stand for them, and the mark of an escaped string.
PARTS: Final = st.sampled_from(["\ud83d", "\udcff", "\\ud83d", "\\", "\\escaped:", "a", "é"])
STRINGS: Final = st.lists(PARTS, max_size=5).map("".join) | st.text(st.characters())


@given(first=STRINGS, second=STRINGS)
def test_different_strings_have_different_forms(first: str, second: str) -> None:
    encodable(first).encode("utf-8")
    assert (encodable(first) == encodable(second)) == (first == second)


@given(text=st.text())
def test_what_utf8_holds_is_left_as_it_is(text: str) -> None:
    assert encodable(text) == text or text.startswith("\\escaped:")


@given(text=STRINGS)
def test_every_string_is_had_back_from_its_form(text: str) -> None:
    assert original(encodable(text)) == text
