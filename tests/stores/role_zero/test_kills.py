"""Processes that are killed: each message is in the window or in long-term memory, once."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from devmem_stores.role_zero.role import RoleMessages
from tests.conftest import StartScript

from .conftest import OpenStore, ids

WORKER = Path(__file__).parent / "workers" / "talk.py"


def check_places(memory: RoleMessages) -> list[str]:
    """Return the ids of all messages, each of which is in exactly one place."""
    window, long_term, history = ids(memory.window()), ids(memory.long_term()), ids(memory.history())
    assert long_term + window == history
    assert len(set(history)) == len(history) == memory.count()
    assert len(window) == min(len(history), 5)
    return history


@pytest.mark.kit
def test_kills_at_random_points(open_store: OpenStore, tmp_path: Path, start_script: StartScript) -> None:
    chance = random.Random(7)
    acknowledged = -1
    for _ in range(12):
        process = start_script(WORKER, tmp_path, acknowledged + 1)
        assert process.stdout is not None
        for _ in range(chance.randrange(1, 25)):
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        # What it could still print before it died was stored too.
        acknowledged = max([acknowledged, *map(int, process.stdout.read().split("\n")[:-1])])
        process.wait()
        store = open_store(memory_k=5, memory_path="roles.db")
        history = check_places(store.role("engineer", user="ann"))
        expected = [str(number) for number in range(acknowledged + 1)]
        # One more may be there: killed between storing it and saying so.
        assert history in (expected, [*expected, str(acknowledged + 1)])
        store.close()
    assert acknowledged > 12
