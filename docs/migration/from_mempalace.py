"""Write a line of JSON for each drawer of a palace and each fact of its knowledge graph."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

DRAWERS = """
SELECT e.embedding_id, m.key, coalesce(m.string_value, m.int_value, m.float_value, m.bool_value)
FROM collections c JOIN segments s ON s.collection = c.id JOIN embeddings e ON e.segment_id = s.id
JOIN embedding_metadata m ON m.id = e.id WHERE c.name = 'mempalace_drawers'
"""
FACTS = """
SELECT t.id, s.name, t.predicate, o.name, t.valid_from, t.valid_to
FROM triples t JOIN entities s ON s.id = t.subject JOIN entities o ON o.id = t.object
"""


def drawers(file: str) -> Iterator[dict[str, Any]]:
    """Yield a record for each drawer; the chunks of a drawer that was filed as one text are put together again."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, key, value in sqlite3.connect(file).execute(DRAWERS):
        found[name][key] = value
    whole: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, entry in found.items():
        whole[entry.get("parent_drawer_id") or name].append(entry)
    for name, entries in whole.items():
        entries.sort(key=lambda entry: entry.get("chunk_index", 0))
        text = "".join(entry.pop("chroma:document", "") for entry in entries)
        metadata = {key: value for key, value in entries[0].items() if value != ""}
        # MemPalace stores local time and not its zone: run this where it ran.
        filed = (
            {"time": datetime.fromisoformat(metadata["filed_at"]).astimezone().isoformat()}
            if "filed_at" in metadata
            else {}
        )
        if text.strip():
            yield {"id": name, "text": text, "metadata": metadata, **filed}


def facts(file: str) -> Iterator[dict[str, Any]]:
    for name, subject, predicate, thing, begin, end in sqlite3.connect(file).execute(FACTS):
        text = f"{subject} {predicate.replace('_', ' ')} {thing}" + (f" (until {end})" if end else "")
        metadata = {"subject": subject, "predicate": predicate, "object": thing, "valid_to": end}
        yield {"id": f"fact_{name}", "text": text, "metadata": metadata, **({"time": begin} if begin else {})}


records = [*drawers("palace/chroma.sqlite3"), *facts("knowledge_graph.sqlite3")]
lines = [json.dumps(record, ensure_ascii=False) for record in records]
Path("palace.jsonl").write_text("\n".join(lines), encoding="utf-8")
