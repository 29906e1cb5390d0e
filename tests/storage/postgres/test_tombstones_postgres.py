"""Tombstones of earlier versions in PostgreSQL."""

from __future__ import annotations

import pytest

import devmem
from devmem.errors import NotStoredError

pytestmark = pytest.mark.postgres


def test_of_an_item_that_stays_only_the_erased_versions_are_kept_out(store_url: str) -> None:
    with devmem.open(store_url, embedding=None) as memory:
        for text in ("Bo lives in Berlin.", "Bo lives in Hamburg.", "Bo lives in Bonn."):
            memory.add(text, key="home")
        assert memory.forget(matching="Berlin", tombstone=True, verify=True).tombstones == 1
        assert memory.add("Bo lives in Bonn.", id="again") == "again"
        with pytest.raises(NotStoredError):
            memory.add("Bo lives in Berlin.")
