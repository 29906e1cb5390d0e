"""Write a line of JSON for each value of `store.db`, a file of LangGraph's `SqliteStore`."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path


def user_of(namespace: list[str]) -> str | None:
    return namespace[1] if namespace[0] == "memories" and len(namespace) > 1 else None


def texts(value: object) -> Iterator[str]:
    """Yield the texts of a value, however deep they are."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts(part)


lines = []
for prefix, key, raw, updated_at, expires_at in sqlite3.connect("store.db").execute(
    "SELECT prefix, key, value, updated_at, expires_at FROM store ORDER BY updated_at, prefix, key"
):
    value = json.loads(raw)
    is_langmem = isinstance(value.get("kind"), str) and "content" in value
    record = {
        "id": f"{prefix}/{key}",
        "text": "\n".join(texts(value["content"] if is_langmem else value)),
        "time": updated_at,
        "metadata": {"namespace": prefix, "key": key, "value": value},
    }
    user, expiry = user_of(prefix.split(".")), {"expires_at": expires_at} if expires_at else {}
    if record["text"]:
        lines.append(json.dumps({**record, **({"user": user} if user else {}), **expiry}))
Path("store.jsonl").write_text("\n".join(lines), encoding="utf-8")
