"""Add messages to one conversation: python talk.py FOLDER URL NAME COUNT; starts when a line comes in.

A line comes out when it is ready, one for each message (`kept`, or `fallback` when a failure is reported), and the end.
"""

from __future__ import annotations

import sys
from pathlib import Path

from devmem.stores import StoreSetup, WriteStatus
from devmem_stores.brain import BrainConfig, BrainMemory


def say(line: str) -> None:
    """Report to the test."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


folder, url, name, count = sys.argv[1:]
redis = {"url": url, "retry_after": 0.01} if url else None
config = BrainConfig.model_validate({"memory_path": "memory.db", "redis": redis})
store = BrainMemory(StoreSetup(name="brain", store_type="brain", config=config, base_dir=Path(folder)))
store.load()
brain = store.brain("ann", "c")
say("ready")
sys.stdin.readline()
for n in range(int(count)):
    outcome = brain.add_talk(f"{name} says {n}")
    assert outcome.status is WriteStatus.STORED, outcome
    say("kept" if outcome.failure is None else "fallback")
store.close()
say("end")
