"""Data as a reader of docs/migration/chatdev.md has it, in the current folder."""

import json
from pathlib import Path

exchanges = [
    ("When is the launch?", "On June 2nd.", 1778248560.0),
    ("Where is the party?", "At the old mill.", 1778334960.0),
]
items = [
    {
        "id": f"3f2a9c1{number}_{int(time)}",
        "content_summary": f"Input: {question} Output: {answer}",
        "metadata": {"agent_role": "You are the planner.", "input_preview": question, "content_length": 40},
        "embedding": [0.6, 0.8],
        "timestamp": time,
        "input_snapshot": {"text": question, "blocks": []},
        "output_snapshot": {"text": answer, "blocks": []},
    }
    for number, (question, answer, time) in enumerate(exchanges)
]
Path("memory_notes.json").write_text(json.dumps(items, indent=2, ensure_ascii=False), encoding="utf-8")
