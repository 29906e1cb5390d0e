"""Paths lead to the texts of JSON values, and never fail on one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem import MemoryItem
from devmem.model.fields import embedded_hash, is_path
from devmem.stores import dump_item, load_item, texts_at

VALUE: dict[str, Any] = {
    "title": "Trains",
    "a.b": "a key with a period",
    "a": {"b": "not this one", "c": {"d": "deep"}},
    "chapters": [{"content": "first"}, {"content": " "}, {"content": ["x", {"y": "z"}]}],
    "sure": True,
    "pages": 12,
    "none": None,
}


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("title", {"title": "Trains"}),
        ("a.b", {"a.b": "a key with a period"}),
        ("a.c.d", {"a.c.d": "deep"}),
        ("chapters[0].content", {"chapters[0].content": "first"}),
        ("chapters[-1].content", {"chapters[2].content": "x\nz"}),
        ("chapters[*].content", {"chapters[0].content": "first", "chapters[2].content": "x\nz"}),
        ("chapters.*.content", {"chapters[0].content": "first", "chapters[2].content": "x\nz"}),
        ("a.*", {"a.b": "not this one", "a.c": "deep"}),
        ("chapters", {"chapters": "first\n \nx\nz"}),
        ("sure", {"sure": "True"}),
        ("pages", {"pages": "12"}),
        *((nothing, {}) for nothing in ("none", "absent", "title.deeper", "title[0]", "chapters[9].content", "a[0]")),
        *((unusable, {}) for unusable in ("", ".", "a..c", "chapters[", "[*", "a.c.")),
    ],
)
def test_a_path_leads_to_texts(path: str, wanted: dict[str, str]) -> None:
    assert {found.path: found.text for found in texts_at(VALUE, path)} == wanted


KEYS = st.text(st.characters(exclude_characters=".[]*", exclude_categories=["Cs"]), min_size=1, max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, JSON, max_size=4), st.text("abc.[]*0-{}", max_size=12))
def test_each_text_has_a_path_that_leads_to_it_alone(value: dict[str, Any], path: str) -> None:
    for found in [*texts_at(value, path), *texts_at(value, "*.*"), *texts_at(value, "*[*]")]:
        assert is_path(found.path)
        assert list(texts_at(value, found.path)) == [found]


def test_fields_are_a_part_of_the_json_form_where_there_are_any() -> None:
    """A file that was written before, and DevAll's, stay as they are."""
    plain = MemoryItem(content_summary="x")
    assert "indexed_fields" not in dump_item(plain)
    for fields in ((), ("title", "chapters[*].content")):
        item = MemoryItem(content_summary="x", metadata=VALUE, indexed_fields=fields)
        assert load_item(json.loads(json.dumps(dump_item(item)))) == item


def test_what_is_embedded_has_the_hash_of_the_content_unless_a_field_adds_to_it() -> None:
    """A store that uses no fields keeps the embeddings that it has."""
    item = MemoryItem(content_summary="x", metadata=VALUE)
    assert embedded_hash(item) == item.content_hash
    absent = MemoryItem(content_summary="x", metadata=VALUE, indexed_fields=("absent",))
    assert embedded_hash(absent) == item.content_hash
    titled = MemoryItem(content_summary="x", metadata=VALUE, indexed_fields=("title",))
    assert embedded_hash(titled) != item.content_hash
