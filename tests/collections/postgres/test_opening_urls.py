"""Opening a URL without a workflow: the store says what it is."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

import devmem
from devmem.errors import ConfigError
from devmem.testing import HashEmbedder

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("kind", ["simple", "blackboard", "brain", "conversation", "long_term", "role_zero"])
def test_a_store_opens_as_the_type_that_it_is(store_url: str, kind: str) -> None:
    config: dict[str, JsonValue] = {"memory_path": store_url}
    with devmem.open({"type": kind, "config": config}) as memory:
        memory.add("The launch is on June 2nd.", user="ann")
    with devmem.open(store_url) as memory:
        assert memory.store.setup.store_type == kind
        assert len(memory.scoped(user="ann")) == 1


def test_a_store_without_a_type_is_a_simple_one(store_url: str) -> None:
    with devmem.open(store_url, embedding=HashEmbedder(8)) as memory:
        assert memory.store.setup.store_type == "simple"


def test_a_store_that_needs_more_than_its_place_says_so(store_url: str) -> None:
    config: dict[str, JsonValue] = {"index_path": store_url, "file_sources": ["."]}
    with devmem.open({"type": "file", "config": {**config, "file_sources": [{"path": "no such folder"}]}}):
        pass
    with pytest.raises(ConfigError, match="file_sources"):
        devmem.open(store_url)
