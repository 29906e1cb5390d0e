"""Opening a URL without a workflow: the store says what it is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import JsonValue

import devmem
from devmem.storage.postgres.collection import PostgresCollection
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


def test_schemas_of_a_new_database_are_made_at_once(postgres_server: PostgresServer) -> None:
    """The extension is common to all of them."""
    postgres_server.copy_database("template1", "new")
    urls = [postgres_server.url("new", schema=f"schema {number}") for number in range(6)]
    with ThreadPoolExecutor(len(urls)) as pool:
        for store in pool.map(PostgresCollection, urls):
            store.close()
    postgres_server.drop_database("new")
