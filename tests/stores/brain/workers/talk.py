"""Says messages in one conversation: python talk.py FOLDER MEMORY URL NAME COUNT; starts when a line comes in."""

from __future__ import annotations

import sys
from pathlib import Path

from devmem import StoreSetup
from devmem_stores.brain import BrainConfig, BrainMemory

folder, memory, url, name, count = sys.argv[1:]
config = BrainConfig.model_validate({"memory_path": memory, "redis": {"url": url} if url else None})
store = BrainMemory(StoreSetup(name="brain", store_type="brain", config=config, base_dir=Path(folder)))
store.load()
brain = store.brain("ann", "c")
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.readline()
for n in range(int(count)):
    outcome = brain.add_talk(f"{name} says {n}")
    assert outcome.failure is None, outcome
store.close()
