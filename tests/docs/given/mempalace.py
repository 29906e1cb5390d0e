"""Data as a reader of docs/migration/mempalace.md has it, in the current folder."""

import sqlite3
from pathlib import Path

Path("palace").mkdir()
chroma = sqlite3.connect("palace/chroma.sqlite3")
chroma.executescript("""
CREATE TABLE collections (id TEXT PRIMARY KEY, name TEXT NOT NULL, dimension INTEGER, database_id TEXT NOT NULL);
CREATE TABLE segments (id TEXT PRIMARY KEY, type TEXT NOT NULL, scope TEXT NOT NULL, collection TEXT NOT NULL);
CREATE TABLE embeddings (id INTEGER PRIMARY KEY, segment_id TEXT NOT NULL, embedding_id TEXT NOT NULL, seq_id BLOB);
CREATE TABLE embedding_metadata (
    id INTEGER, key TEXT NOT NULL, string_value TEXT, int_value INTEGER, float_value REAL, bool_value INTEGER,
    PRIMARY KEY (id, key)
);
INSERT INTO collections VALUES ('c1', 'mempalace_drawers', 384, 'd1');
INSERT INTO segments VALUES ('s1', 'urn:chroma:segment/vector/hnsw-local-persisted', 'VECTOR', 'c1');
INSERT INTO segments VALUES ('s2', 'urn:chroma:segment/metadata/sqlite', 'METADATA', 'c1');
""")
drawers: list[tuple[str, str, dict[str, str | int]]] = [
    ("drawer_launch_venue_5d2e", "The party is at the old mill.", {"room": "venue"}),
    ("drawer_launch_plan_9f1c_chunk_000001", "e moved to June 2nd.", {"room": "plan", "chunk_index": 1}),
    ("drawer_launch_plan_9f1c_chunk_000000", "The launch dat", {"room": "plan", "chunk_index": 0}),
]
for number, (name, text, metadata) in enumerate(drawers, start=1):
    chroma.execute("INSERT INTO embeddings VALUES (?, 's2', ?, ?)", (number, name, number))
    parent = {"parent_drawer_id": name.partition("_chunk_")[0]} if "_chunk_" in name else {}
    common = {"wing": "launch", "source_file": "", "added_by": "mcp", "filed_at": "2026-05-08T13:56:00.123456"}
    entry: dict[str, str | int] = {"chroma:document": text, **common, **metadata, **parent}
    for key, value in entry.items():
        text_value, number_value = (value, None) if isinstance(value, str) else (None, value)
        chroma.execute(
            "INSERT INTO embedding_metadata VALUES (?, ?, ?, ?, NULL, NULL)", (number, key, text_value, number_value)
        )
chroma.commit()

graph = sqlite3.connect("knowledge_graph.sqlite3")
graph.executescript("""
CREATE TABLE entities (id TEXT PRIMARY KEY, name TEXT NOT NULL, type TEXT, properties TEXT, created_at TEXT);
CREATE TABLE triples (
    id TEXT PRIMARY KEY, subject TEXT NOT NULL, predicate TEXT NOT NULL, object TEXT NOT NULL,
    valid_from TEXT, valid_to TEXT, confidence REAL, extracted_at TEXT
);
INSERT INTO entities (id, name) VALUES ('ann', 'Ann'), ('harbour', 'Harbour Ltd'), ('mill', 'Mill Ltd');
INSERT INTO triples VALUES ('t1', 'ann', 'works_at', 'harbour', '2024-01-01', '2026-03-01', 1.0, '2026-05-08 13:56:00');
INSERT INTO triples VALUES ('t2', 'ann', 'works_at', 'mill', '2026-03-01', NULL, 1.0, '2026-05-08 13:56:00');
""")
graph.commit()
