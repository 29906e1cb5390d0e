"""Data as a reader of docs/migration/agentuniverse.md has it, in the current folder."""

import sqlite3

TABLE = """
CREATE TABLE memory (
    id INTEGER NOT NULL PRIMARY KEY, session_id VARCHAR(100), content TEXT, trace_id VARCHAR(100),
    source VARCHAR(50), source_type VARCHAR(50), target VARCHAR(50), target_type VARCHAR(50), type VARCHAR(50),
    prefix VARCHAR(200), timestamp DATETIME, params TEXT, pair_id VARCHAR(50), message_id VARCHAR(100) UNIQUE,
    additional_args TEXT
)
"""
rows = [
    ("unknown", "user", "planner", "agent", "input", "When is the launch?", "agent_1"),
    ("planner", "agent", "calendar", "tool", "input", '{"month": 6}', "tool_2"),
    ("planner", "agent", "calendar", "tool", "output", "2026-06-02: launch", "tool_2"),
    ("unknown", "user", "planner", "agent", "output", "On June 2nd.", "agent_1"),
]
database = sqlite3.connect("memory.db")
database.execute(TABLE)
for number, (source, source_type, target, target_type, kind, content, pair) in enumerate(rows):
    values = (content, source, source_type, target, target_type, kind, f"2026-05-08 13:56:0{number}.000000", pair)
    database.execute(
        "INSERT INTO memory VALUES (NULL, 's1', ?, 't1', ?, ?, ?, ?, ?, '', ?, '{}', ?, ?, '{}')",
        (*values, f"{number:032x}"),
    )
database.commit()
