"""Does what it is told to a collection: a JSON command a line on stdin, a JSON answer a line on stdout."""

# ruff: noqa: T201 - its answers go to stdout
from __future__ import annotations

import json
import sys
from typing import Any

from devmem import MemoryItem
from devmem.storage import Collection, JsonCollection, SearchQuery, SqliteCollection
from devmem.stores import PassageEmbeddings
from devmem.testing import HashEmbedder

EMBEDDER = HashEmbedder(dimension=32)


def answer(collection: Collection, command: dict[str, Any]) -> object:
    texts: dict[str, str] = command.get("texts", {})
    match command["do"]:
        case "add":
            outcomes = collection.add(
                [
                    MemoryItem(id=name, content_summary=text, embedding=EMBEDDER.vector(text))
                    for name, text in texts.items()
                ]
            )
            return [outcome.status for outcome in outcomes]
        case "add_waiting":
            collection.add([MemoryItem(id=name, content_summary=text) for name, text in texts.items()])
            return "done"
        case "embed":
            return collection.set_embeddings(
                {name: PassageEmbeddings.of(EMBEDDER.vector(text)) for name, text in texts.items()}
            )
        case "delete":
            return collection.delete(ids=command["ids"])
        case "search":
            text = command["text"]
            hits = collection.search(SearchQuery(text=text, vector=EMBEDDER.vector(text), limit=10_000))
            return [hit.item.id for hit in hits]
        case other:
            raise ValueError(other)


def main(path: str) -> None:
    kind = JsonCollection if path.endswith(".json") else SqliteCollection
    collection = kind(path, model=EMBEDDER.identity)
    for line in sys.stdin:
        print(json.dumps(answer(collection, json.loads(line))), flush=True)
    collection.close()


if __name__ == "__main__":
    main(sys.argv[1])
