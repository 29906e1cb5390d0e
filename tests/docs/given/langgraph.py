"""Data as a reader of docs/migration/langgraph.md has it, in the current folder."""

import json
import sqlite3

TABLE = """
CREATE TABLE store (
    prefix text NOT NULL, key text NOT NULL, value text NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key)
)
"""
tea = {"text": "She takes her tea without milk.", "sure": True}
train = {"kind": "Memory", "content": {"content": "She prefers the night train."}}
pass_ = {"text": "His bus pass ends in June."}
database = sqlite3.connect("store.db")
database.execute(TABLE)
for prefix, key, value, expires_at, minutes in [
    ("memories.ann", "tea", tea, None, None),
    ("memories.ann", "train", train, None, None),
    ("memories.bob", "pass", pass_, "2099-06-30 22:00:00.000000+00:00", 43200.0),
]:
    times = ("2026-05-08 13:56:00", "2026-05-08 13:56:00", expires_at, minutes)
    # As LangGraph does, as bytes.
    database.execute(
        "INSERT INTO store VALUES (?, ?, ?, ?, ?, ?, ?)", (prefix, key, json.dumps(value).encode(), *times)
    )
database.commit()
