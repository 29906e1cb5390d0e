"""Read `memory.db`, a file of agentUniverse's `SqliteMemoryStorage`, into the `conversation` store `global.db`."""

import json
import sqlite3
from collections.abc import Iterator
from datetime import datetime

import devmem
from devmem.recording import Interaction
from devmem.views.diagrams import call_tree, tree_lines
from devmem_stores.conversation import ConversationConfig, ConversationMemory
from devmem_stores.conversation.agentuniverse import from_agentuniverse


def records(file: str, table: str = "memory") -> Iterator[Interaction]:
    database = sqlite3.connect(file)
    database.row_factory = sqlite3.Row
    for row in database.execute(f'SELECT * FROM "{table}" ORDER BY timestamp, id'):
        # agentUniverse stores local time and not its zone: run this where it ran.
        when = datetime.fromisoformat(row["timestamp"]).astimezone()
        yield from_agentuniverse(
            {
                **dict(row),
                "id": row["message_id"],
                "conversation_id": row["session_id"],
                "metadata": {"timestamp": when, "pair_id": row["pair_id"], "params": row["params"]},
                "additional_args": json.loads(row["additional_args"] or "{}"),
            }
        )


config = ConversationConfig(memory_path="global.db")
store = ConversationMemory(devmem.stores.StoreSetup(name="global", store_type="conversation", config=config))
store.load()
store.record(list(records("memory.db")))
print(store.count(), "records")
print("\n".join(tree_lines(call_tree(store.trace("t1")))))
store.close()
