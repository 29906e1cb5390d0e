"""Opening a URL without a workflow: the store says what it is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import JsonValue

import devmem
from devmem.errors import ConfigError
from devmem.storage.opening import inspect_location
from devmem.storage.postgres.collection import PostgresCollection
from devmem.testing import HashEmbedder
from tools.postgres_server import PostgresServer

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


def test_schemas_of_a_new_database_are_made_at_once(postgres_server: PostgresServer) -> None:
    """The extension is common to all of them."""
    postgres_server.copy_database("template1", "new")
    urls = [postgres_server.url("new", schema=f"schema {number}") for number in range(6)]
    with ThreadPoolExecutor(len(urls)) as pool:
        for store in pool.map(PostgresCollection, urls):
            store.close()
    postgres_server.drop_database("new")


def test_a_store_that_was_opened_without_a_model_stays_without_one(store_url: str) -> None:
    """Until somebody names a model: nothing is embedded that nobody asked for."""
    with devmem.open(store_url, embedding=None) as memory:
        memory.add("The lab's code is 4711.")
    for _ in range(2):
        with devmem.open(store_url) as memory:
            memory.add("The lab is closed on Mondays.")
            assert memory.store.info().embedding is None
    with devmem.open(store_url, embedding=HashEmbedder(32)) as memory:
        memory.add("The lab has a new door.")
        assert memory.store.info().waiting == 0
    facts = inspect_location(store_url, "memory")
    assert facts is not None
    assert (facts.model, facts.words_only) == ("testing:hash:32", False)
