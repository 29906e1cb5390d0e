"""LoCoMo's questions, each with the turns that answer it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ADVERSARIAL: Final = 5
# Some evidence is written "D8:6; D9:17", "D:11:26" or "D30:05".
_TURN: Final = re.compile(r"D:?(\d+):(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and the ids of the items that answer it."""

    text: str
    evidence: frozenset[str]


def read_questions(path: Path) -> dict[str, list[Question]]:
    """Give each conversation's questions in their order; adversarial ones and those without evidence are left out."""
    found: dict[str, list[Question]] = {}
    for sample in json.loads(path.read_text(encoding="utf-8")):
        name = str(sample["sample_id"])
        for raw in sample["qa"]:
            evidence = _TURN.findall(" ".join(map(str, raw.get("evidence", []))))
            ids = frozenset(f"{name}/D{int(session)}:{int(turn)}" for session, turn in evidence)
            if ids and raw["category"] != _ADVERSARIAL:
                found.setdefault(name, []).append(Question(text=str(raw["question"]), evidence=ids))
    return found
