"""A lazy pattern is the pattern, compiled when it is first used."""

from __future__ import annotations

import re

import pytest

from devmem.text.patterns import lazy_pattern


def test_it_does_what_the_pattern_does() -> None:
    pattern = lazy_pattern(r"(?P<word>[a-z]+)", re.IGNORECASE)
    for _ in range(2):
        assert pattern.findall("One two") == ["One", "two"]
    found = pattern.search("-- Two")
    assert found is not None
    assert found["word"] == "Two"
    assert pattern.groupindex == {"word": 1}


def test_it_is_not_compiled_before() -> None:
    broken = lazy_pattern("(")
    with pytest.raises(re.error):
        broken.match("x")
