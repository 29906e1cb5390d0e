"""Messages leave out the contents of a memory that a service repeats, and passwords of stores."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.errors import CollectionError
from devmem.redaction import without_repeated

LETTERS = st.text(st.characters(categories=("Ll", "Lo", "Nd")), min_size=32, max_size=200)


@given(before=st.text(max_size=30), part=LETTERS, after=st.text(max_size=30), escaped=st.booleans())
def test_a_part_of_a_text_is_not_repeated(before: str, part: str, after: str, escaped: bool) -> None:
    """Whatever stands around it, in the text and in the service's words."""
    said = f"bad request: {json.dumps(part[:64], ensure_ascii=escaped)} is too long"
    shown = without_repeated(said, ["something else", f"{before} {part} {after}"])
    assert shown.startswith("(the service's words are left out")


@pytest.mark.parametrize(
    "texts", [[], [""], ["no"], ["The launch is on June 2nd, in the hall by the river."]], ids=lambda texts: len(texts)
)
def test_other_words_are_shown(texts: list[str]) -> None:
    said = "status 429: no requests are left; the rate is 60 a minute"
    assert without_repeated(said, texts) == said


@pytest.mark.parametrize(
    "location", ["postgresql://ann:geheim@host/team", "postgresql://host/team?password=geheim", "mongodb://a:geheim@h/"]
)
def test_an_error_of_a_store_shows_no_password(location: str) -> None:
    error = CollectionError(location, f"no connection to {location}")
    assert "geheim" not in str(error)
    assert "geheim" not in str(error.location)
