"""Data as a reader of docs/migration/letta.md has it, in the current folder."""

import json
from pathlib import Path


def message(number: int, role: str, said: str, minute: int, **more: object) -> dict[str, object]:
    content = [{"type": "text", "text": said}] if said else []
    time = f"2026-05-08T13:{minute:02d}:00.000000+00:00"
    return {"type": "message", "role": role, "content": content, "id": f"message-{number}", "created_at": time, **more}


answer = {"name": "send_message", "arguments": json.dumps({"message": "Then I look for night trains."})}
agent = {
    "id": "agent-0",
    "name": "Scout",
    "system": "You plan journeys.",
    "block_ids": ["block-0", "block-1"],
    "messages": [
        message(0, "system", "You plan journeys.", 50),
        message(1, "user", "I want to sleep on the way to Vienna.", 56),
        message(2, "assistant", "", 57, tool_calls=[{"id": "call-1", "type": "function", "function": answer}]),
        message(3, "tool", '{"status": "OK"}', 57, tool_call_id="call-1"),
        message(4, "user", "Yes, on June 2nd.", 58),
        message(5, "assistant", "There is one at 20:13.", 59),
    ],
}
blocks = [
    {"id": "block-0", "label": "human", "value": "Ann. She takes her tea without milk.", "limit": 20000},
    {"id": "block-1", "label": "persona", "value": "I am Scout. I keep it short.", "limit": 20000},
]
document = {"agents": [agent], "blocks": blocks, "groups": [], "files": [], "sources": [], "tools": []}
Path("scout.af").write_text(json.dumps(document), encoding="utf-8")
passage = {"id": "passage-7f3a", "text": "Ann's bus pass ends in June.", "tags": ["travel"]}
Path("passages.json").write_text(json.dumps([{**passage, "created_at": "2026-04-01T08:00:00+00:00"}]), encoding="utf-8")
