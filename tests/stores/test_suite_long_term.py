"""The contract of a store type, kept by `long_term`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from pydantic import JsonValue

from devmem.testing import StoreSuite
from devmem_stores.long_term import LongTermMemory


class TestInSqlite(StoreSuite):
    store_class = LongTermMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory.db"}


class TestInJson(StoreSuite):
    store_class = LongTermMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory/memory.json"}


class TestInMemory(StoreSuite):
    store_class = LongTermMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": None}
    persists = False


@pytest.mark.kit
class TestOfTheSession(StoreSuite):
    """The file that `auto` names is chosen in one place for all store types, which `make test` checks with `simple`."""

    store_class = LongTermMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "auto"}
