"""A sink that keeps what it is given, and can be slow, down or short of breath."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from devmem.errors import CollectionError
from devmem.recording import Interaction, InteractionRecorder


class ListSink:
    """Keeps records by id; `gate` holds it back, `down` makes it fail."""

    def __init__(self) -> None:
        self.records: dict[str, Interaction] = {}
        self.calls = 0
        self.down = False
        self.gate = threading.Event()
        self.gate.set()

    def record(self, interactions: Sequence[Interaction]) -> None:
        self.gate.wait()
        self.calls += 1
        if self.down:
            raise CollectionError("sink", "the sink of this test is down.")
        self.records |= {one.id: one for one in interactions}

    def in_order(self) -> list[Interaction]:
        return sorted(self.records.values(), key=lambda one: (one.event_time, one.sequence))

    def told(self) -> list[str]:
        return [f"{one.source.name} {one.kind.value} {one.target.name}: {one.content}" for one in self.in_order()]


@pytest.fixture
def sink() -> ListSink:
    return ListSink()


@pytest.fixture
def recorder(sink: ListSink, tmp_path: Path) -> InteractionRecorder:
    return InteractionRecorder(sink, tmp_path / "journal")
