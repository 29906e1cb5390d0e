"""A process that is killed while it stores turns and extracts facts loses none of either, and makes none twice."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from devmem.stores import StoreSetup
from devmem_stores.simple import SimpleConfig, SimpleMemory
from tests.conftest import StartScript
from tests.models.service import ChatService, Reply
from tests.stores.test_facts import said_in, stated

pytestmark = pytest.mark.kit

_KILLS = 8
_WRITER = """
import sys
from pathlib import Path
from devmem import MemoryContentSnapshot, MemoryWritePayload, Scope
from devmem.stores import StoreSetup
from devmem_stores.simple import SimpleConfig, SimpleMemory

folder, address, first = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
facts = {"llm": {"model": "m", "api_key": "k", "base_url": address}}
config = SimpleConfig.model_validate({"memory_path": "notes.db", "facts": facts})
store = SimpleMemory(StoreSetup(name="notes", store_type="simple", config=config, base_dir=folder))
store.load()
for number in range(first, first + 20):
    said = MemoryContentSnapshot(text="noted")
    text = f"My number is {number}."
    outcome = store.update(MemoryWritePayload(inputs_text=text, output_snapshot=said, scope=Scope(user=f"u{number}")))
    print(outcome.item_id, flush=True)
"""


def _number_of(request: dict[str, Any]) -> Reply:
    number = said_in(request).split("My number is ")[1].split(".")[0]
    return stated(("I", "number", number, f"My number is {number}"))


def test_kills_lose_no_fact_and_make_none_twice(
    tmp_path: Path, service: ChatService, start_script: StartScript
) -> None:
    """Each acknowledged turn has its fact in the end; the model is asked again at most once a kill."""
    service.script = [_number_of]
    script, chance = tmp_path / "writer.py", random.Random(20261123)
    script.write_text(_WRITER, encoding="utf-8")
    acknowledged: list[str] = []
    for kill in range(_KILLS):
        writer = start_script(script, tmp_path, service.address, 10_000 * (kill + 1))
        assert writer.stdout is not None
        acknowledged += [writer.stdout.readline().strip() for _ in range(chance.randint(1, 6))]
        writer.kill()
        acknowledged += [line.strip() for line in writer.stdout.read().splitlines() if len(line.strip()) == 32]
        writer.wait()
    facts = {"llm": {"model": "m", "api_key": "k", "base_url": service.address}}
    config = SimpleConfig.model_validate({"memory_path": "notes.db", "facts": facts})
    # When no dead process can be asking any more, and what it did not store is overdue.
    setup = StoreSetup(
        name="notes", store_type="simple", config=config, base_dir=tmp_path, clock=lambda: time.time() + 4_000
    )
    store = SimpleMemory(setup)
    store.load()
    status = store.catch_up_facts()
    assert (status.waiting, status.failure) == (0, "")
    items = list(store.scan())
    sources = Counter(item.provenance.parents[0] for item in items if "fact" in item.metadata)
    turns = {item.id for item in items if "fact" not in item.metadata}
    assert set(acknowledged) <= turns
    assert set(sources) == turns
    assert set(sources.values()) == {1}
    assert status.extracted == len(turns)
    assert len(service.requests) <= len(turns) + _KILLS
    store.close()
