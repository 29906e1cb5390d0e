"""The contract of a store type, kept by `role_zero`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import JsonValue

from devmem.testing import StoreSuite
from devmem_stores.role_zero import RoleZeroMemory


class TestOfTheSession(StoreSuite):
    store_class = RoleZeroMemory


class TestInSqliteWithASmallWindow(StoreSuite):
    store_class = RoleZeroMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory.db", "memory_k": 2}


class TestInJson(StoreSuite):
    store_class = RoleZeroMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory/memory.json"}


class TestInMemory(StoreSuite):
    store_class = RoleZeroMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": None}
    persists = False
