"""The contract of a collection, kept by a JSON file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from devmem.storage import JsonCollection
from tests.collection_suite import CollectionSuite, OpenCollection


class TestJsonFile(CollectionSuite):
    records_fields = False

    @pytest.fixture
    def open_collection(self, tmp_path: Path) -> OpenCollection:
        return partial(JsonCollection, tmp_path / "store.json")
