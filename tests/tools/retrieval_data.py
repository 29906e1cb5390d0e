"""Small data sets in each form, made up."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

LOCOMO: list[dict[str, Any]] = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Mara", "dia_id": "D1:1", "text": "I adopted a cat called Pixel."},
                {"speaker": "Jonas", "dia_id": "D1:2", "text": "Lovely! I am learning the cello."},
            ],
            "session_2_date_time": "9:00 am on 1 June, 2023",
            "session_2": [
                {
                    "speaker": "Mara",
                    "dia_id": "D2:1",
                    "text": "We moved to Lisbon.",
                    "blip_caption": "a photo of a tram",
                },
                {"speaker": "Jonas", "dia_id": "D2:2", "text": "My cello teacher comes from Porto."},
                {"speaker": "Mara", "dia_id": "D2:3", "text": " "},
            ],
        },
        "qa": [
            {"question": "What is the cat called?", "answer": "Pixel", "evidence": ["D1:1"], "category": 4},
            {"question": "Who plays the cello?", "answer": "Jonas", "evidence": ["D1:2; D2:02"], "category": 1},
            {"question": "Where does Mara live?", "answer": "Lisbon", "evidence": ["D:2:1", "D1:1"], "category": 2},
            {"question": "Who painted the tram?", "adversarial_answer": "Mara", "evidence": ["D2:1"], "category": 5},
            {"question": "What is unknown?", "answer": "?", "evidence": ["D"], "category": 3},
            {"question": "And what else?", "answer": "?", "evidence": [], "category": 3},
        ],
    }
]
LONGMEMEVAL: list[dict[str, Any]] = [
    {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "Which degree do I have?",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 10:00"],
        "haystack_session_ids": ["s_a", "s_b"],
        "haystack_sessions": [
            [{"role": "user", "content": "Tell me about foxes."}, {"role": "assistant", "content": "They dig dens."}],
            [{"role": "user", "content": "I hold a degree in chemistry."}, {"role": "assistant", "content": "Fine."}],
        ],
        "answer_session_ids": ["s_b"],
    },
    {
        "question_id": "q2",
        "question_type": "multi-session",
        "question": "What do foxes dig?",
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 10:00"],
        "haystack_session_ids": ["s_a", "s_b"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "Foxes?", "has_answer": False},
                {"role": "assistant", "content": "They dig dens.", "has_answer": True},
            ],
            [{"role": "user", "content": "I like dens."}],
        ],
        "answer_session_ids": ["s_a", "s_b"],
    },
    {
        "question_id": "q3_abs",
        "question_type": "single-session-user",
        "question": "What did I never say?",
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_session_ids": ["s_a"],
        "haystack_sessions": [[{"role": "user", "content": "Hello."}]],
        "answer_session_ids": ["s_a"],
    },
]
UNITS: list[dict[str, Any]] = [
    {
        "id": "chat",
        "units": [
            {"id": "a", "session": "S1", "speaker": "Ann", "date": "2024-03-15", "text": "The key is under the mat."},
            {"id": "b", "session": "S2", "speaker": "Ben", "date": "2024-03-16", "text": "The bus leaves at nine."},
        ],
        "queries": [
            {"id": "k", "text": "Where is the key?", "type": "fact", "gold": ["a"]},
            {"id": "n", "text": "What was not said?", "type": "abstention", "gold": []},
        ],
    }
]
MEMORIES = [
    {
        "1": {
            "time": "2023-12-25",
            "scene": "活动",
            "emotion": "开心",
            "event": "Bart在晚会上跳舞",
            "user-id": 1,
            "id": "1",
        }
    },
    {
        "2": {
            "time": "2023-03-07",
            "scene": "活动",
            "emotion": "难过",
            "event": "Bart的风筝断了线",
            "user-id": 1,
            "id": "2",
        }
    },
]
DIALOGUES = [
    {
        "dialogue": ["<BOD>\n", '<Bart>:"元旦晚会我要表演！"\n', '<Assistant>:"记得你跳舞吗？"\n', "<EOD>\n"],
        "test-turn": [2],
        "relevant-id": [1, 99],
        "user-id": 1,
        "id": 0,
    },
    {"dialogue": ["<BOD>\n", '<Bart>:"嗯"\n'], "test-turn": [2], "relevant-id": [99], "user-id": 1, "id": 1},
]


def write(path: Path, document: object) -> Path:
    """Write a document, gzipped where the name says so."""
    text = json.dumps(document, ensure_ascii=False).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def write_lines(path: Path, objects: list[dict[str, Any]]) -> Path:
    """Write an object a line."""
    path.write_text("\n".join(json.dumps(one, ensure_ascii=False) for one in objects) + "\n", encoding="utf-8")
    return path
