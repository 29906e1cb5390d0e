"""A cache for the latest generation of a database."""

from __future__ import annotations

from devmem.search.indexes.columns import GenerationCache


def test_another_generation_starts_with_a_new_cache() -> None:
    caches = GenerationCache[list[str]](list)
    caches.of(1).append("of one")
    assert caches.of(1) == ["of one"]
    first = caches.of(1)
    assert caches.of(2) == []
    assert (first, caches.of(1)) == (["of one"], [])


def test_forgetting() -> None:
    caches = GenerationCache[list[str]](list)
    caches.of(1).append("forgotten")
    caches.clear()
    assert caches.of(1) == []
