"""Read an agent file of Letta and exported passages into a memory: `scout.af`, `passages.json`, `notes.db`."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import devmem


def said(message: dict[str, Any]) -> Iterator[str]:
    """Yield the words of a message; older agents answer by the tool `send_message`."""
    for part in message["content"]:
        if part["type"] == "text":
            yield part["text"]
    for call in message.get("tool_calls") or []:
        if call["function"]["name"] == "send_message":
            yield json.loads(call["function"]["arguments"])["message"]


def messages(agent: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for message in agent["messages"]:
        text = "\n".join(said(message))
        if message["role"] in ("user", "assistant") and text:
            name = f"{agent['name']}/{message['id']}"
            time = datetime.fromisoformat(message["created_at"]).timestamp()
            yield {"role": message["role"], "content": text, "id": name, "created_at": time}


document = json.loads(Path("scout.af").read_text(encoding="utf-8"))
blocks = {block["id"]: block for block in document["blocks"]}
passages = json.loads(Path("passages.json").read_text(encoding="utf-8"))
with devmem.open("notes.db") as memory:
    for agent in document["agents"]:
        of_agent = memory.scoped(agent=agent["name"])
        for block in (blocks[name] for name in agent["block_ids"]):
            of_agent.add(block["value"], key=block["label"], metadata={"kind": "block"})
        of_agent.add(messages(agent), conversation=agent["name"])
    for passage in passages:
        tags = {"tags": passage["tags"]} if passage.get("tags") else {}
        memory.add(passage["text"], id=passage["id"], time=passage["created_at"], agent="Scout", metadata=tags)

    scout = memory.scoped(agent="Scout")
    print(len(scout), "items")
    print([record.text for record in scout.list(where={"metadata.key": "human"})])
    for record in scout.scan(where={"conversation": "Scout"}):
        print(f"{record.role}: {record.text}")
    print([hit.text for hit in scout.search("bus pass", where={"metadata.tags": {"~=": "travel"}})])
