"""Every string has a UTF-8 form, and no two have the same."""

from __future__ import annotations

import json
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from devmem.model.items import encodable, original
from devmem.text import well_formed, well_formed_json

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


@given(value=st.dictionaries(STRINGS, STRINGS | st.lists(STRINGS, max_size=3), max_size=3))
def test_json_with_half_a_surrogate_pair_says_the_same_with_a_replacement_character(value: dict[str, object]) -> None:
    raw = json.dumps(list(value.items())).encode()
    mended = well_formed_json(raw)
    assert len(mended) == len(raw)
    assert mended.decode() == json.dumps(json.loads(mended)), "whole pairs and other escapes stay"

    def expected(part: object) -> object:
        return well_formed(part) if isinstance(part, str) else [expected(each) for each in part]  # type: ignore[attr-defined]

    assert json.loads(mended) == expected([list(pair) for pair in value.items()])
