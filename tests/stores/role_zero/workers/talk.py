"""Adds messages to a role's memory without end, and prints the number of each once it is stored."""

from __future__ import annotations

import sys
from pathlib import Path

from devmem.messages import UserMessage
from devmem.stores import StoreSetup
from devmem.testing import HashEmbedder
from devmem_stores.role_zero import RoleZeroConfig, RoleZeroMemory

folder, number = Path(sys.argv[1]), int(sys.argv[2])
config = RoleZeroConfig.model_validate(
    {"memory_path": "roles.db", "memory_k": 5, "embedding": {"provider": "openai", "model": "testing"}}
)
setup = StoreSetup(
    name="roles", store_type="role_zero", config=config, base_dir=folder, open_embedder=lambda _: HashEmbedder()
)
store = RoleZeroMemory(setup)
store.load()
memory = store.role("engineer", user="ann")
while True:
    message = UserMessage(f"message number {number}", id=str(number))
    # Every other one with its predecessor once more, which changes nothing.
    memory.add_batch([UserMessage("again", id=str(number - 1)), message] if number % 2 else [message])
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()
    number += 1
