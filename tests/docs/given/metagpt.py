"""Data as a reader of docs/migration/metagpt.md has it, in the current folder."""

import json
from pathlib import Path

REQUIREMENT = "metagpt.actions.add_requirement.UserRequirement"
DESIGN = "metagpt.actions.design_api.WriteDesign"


def message(
    number: int, content: str, role: str, cause_by: str = REQUIREMENT, sent_from: str = ""
) -> dict[str, object]:
    names = {"cause_by": cause_by, "sent_from": sent_from, "send_to": ["<all>"]}
    return {"id": f"{number:032x}", "content": content, "instruct_content": None, "role": role, **names, "metadata": {}}


def memory(*messages: dict[str, object]) -> dict[str, object]:
    return {"storage": messages, "index": {each["cause_by"]: [each] for each in messages}, "ignore_id": False}


asked = message(1, "Write a snake game.", "user")
design = message(2, "One module, snake.py, with curses.", "Architect", DESIGN, "metagpt.roles.architect.Architect")
roles = {
    "Bob": {"name": "Bob", "profile": "Architect", "rc": {"memory": memory(asked, design), "watch": [REQUIREMENT]}},
    "Alex": {"name": "Alex", "profile": "Engineer", "rc": {"memory": memory(asked, design), "watch": [DESIGN]}},
}
team = {"env": {"desc": "", "roles": roles, "history": memory(asked, design)}, "investment": 10.0, "idea": "Snake"}
Path("storage/team").mkdir(parents=True)
Path("storage/team/team.json").write_text(json.dumps(team), encoding="utf-8")

brain = {
    "history": [message(3, "Which keys steer the snake?", "user"), message(4, "The arrow keys.", "assistant")],
    "knowledge": [message(5, "The terminal has 80 columns.", "user")],
    "historical_summary": "Ann asked for a snake game in the terminal.",
    "last_history_id": "",
    "is_dirty": False,
    "last_talk": None,
    "cacheable": True,
}
Path("brain.json").write_text(json.dumps(brain), encoding="utf-8")
