"""Data as a reader of docs/migration/mem0.md has it, in the current folder."""

import json
from pathlib import Path

memories = [
    {
        "id": "5f0c1f4e-0b8f-4f0e-9f1e-2d8f1f2a0001",
        "memory": "Likes tea without milk",
        "hash": "9c2f0d1b7a5e4c3d8f6a1b2c3d4e5f60",
        "metadata": {"topic": "drinks"},
        "created_at": "2026-05-08T06:56:00.000000-07:00",
        "updated_at": None,
        "user_id": "ann",
    },
    {
        "id": "5f0c1f4e-0b8f-4f0e-9f1e-2d8f1f2a0002",
        "memory": "Has a bus pass",
        "hash": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
        "metadata": None,
        "created_at": "2026-05-09T06:56:00.000000-07:00",
        "updated_at": None,
        "expiration_date": "2099-06-02",
        "user_id": "ann",
    },
]
Path("ann.json").write_text(json.dumps({"results": memories}), encoding="utf-8")
