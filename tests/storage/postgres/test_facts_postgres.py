"""Facts of a store in PostgreSQL: the turns that wait are in the database, for every machine, and in no file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.service import ChatService
from tests.stores.test_facts import (
    DOWN,
    FactCases,
    Open,
    caught_up,
    diet_of,
    open_memory,
    service,
    store_of,
    values_in,
)

pytestmark = pytest.mark.postgres
__all__ = ["open_memory", "service"]


class TestInPostgres(FactCases):
    @pytest.fixture
    def place(self, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
        monkeypatch.chdir(tmp_path)
        yield store_url
        assert list(tmp_path.rglob("*.facts")) == []

    def test_another_machine_extracts_what_waits(self, open_memory: Open, service: ChatService) -> None:
        """The one that stored the turns may be gone."""
        service.script = [DOWN]
        one, two = open_memory(), open_memory()
        one.add("My diet is vegan.", user="ann")
        caught_up(one)
        assert caught_up(two).waiting == 1
        one.close()
        service.script = [diet_of]
        assert caught_up(two).extracted == 1
        assert values_in(two) == [("ann", "vegan")]
        status = store_of(two).fact_status()
        assert status is not None
        assert (status.waiting, status.calls, status.calls - status.failures) == (0, len(service.requests), 1)
