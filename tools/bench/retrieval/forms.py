"""Reading data sets: their items, and the questions with their evidence beside them.

A question names its evidence by the ids that the items got, so what is measured is what an import gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from devmem import MemoryItem
from devmem.errors import DataFileError
from tools.bench.retrieval.dataset import Dataset, Haystack, Question
from tools.bench.retrieval.items import DataForm, read_items, session_names

LOCOMO_TYPES: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""LoCoMo's categories; the answers of adversarial questions are not in the conversation, so they are reported apart."""

_EVIDENCE: Final = re.compile(r"D:?(\d+):0*(\d+)")
"""A turn in LoCoMo's evidence; some are written `D:11:26`, `D30:05`, or two in one string."""

Group = Mapping[str, Any]
Ask = Callable[[Group, Mapping[str, MemoryItem]], Iterator[Question]]
"""Returns the questions of one group of a file, those without gold too."""


def read_conversations(path: Path, name: str) -> Dataset:
    """Read a file of conversations that bring their own questions.

    Raises:
        DataFileError: it is not a data set, a question has no text, or two conversations have one id.
    """
    data = read_items(path)
    if data.form not in _QUESTIONS:
        raise DataFileError(path, "memories of MADial-Bench have no questions; name the file of their dialogues too")
    ask, key = _QUESTIONS[data.form]
    groups = data.groups
    by_conversation: dict[str, list[MemoryItem]] = {}
    for item in data.items:
        by_conversation.setdefault(str(item.scope.conversation), []).append(item)
    _check_ids(path, groups, key)
    haystacks, asked = [], 0
    for at, group in enumerate(groups):
        found = by_conversation.get(str(group[key]), [])
        try:
            questions = list(ask(group, {item.id: item for item in found}))
            _check_texts(path, f"[{at}]", questions)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataFileError(
                path, f"the questions of {group[key]!r} are not as {data.form} has them: {error!r}"
            ) from error
        asked += len(questions)
        counted = tuple(question for question in questions if question.gold)
        if counted:
            haystacks.append(Haystack(id=str(group[key]), items=tuple(found), questions=counted))
    if not haystacks:
        raise DataFileError(path, f"{data.form} without a question whose evidence is there: nothing can be measured")
    return Dataset(
        name=name,
        haystacks=tuple(haystacks),
        not_counted=asked - sum(len(one.questions) for one in haystacks),
        left_out=data.left_out,
    )


def _check_ids(path: Path, groups: Sequence[Group], key: str) -> None:
    """Refuse two conversations of one id: their items could not be told apart."""
    first: dict[str, int] = {}
    for at, group in enumerate(groups):
        earlier = first.setdefault(str(group[key]), at)
        if earlier != at:
            raise DataFileError(path, f"[{at}]: {key!r}: {group[key]!r} is that of [{earlier}] too; give it its own")


def _check_texts(path: Path, entry: str, questions: Sequence[Question]) -> None:
    for question in questions:
        if not question.text.strip():
            raise DataFileError(path, f"{entry}: question {question.id!r}: expected text, found {question.text!r}")


def _sessions(gold: Iterable[str], items: Mapping[str, MemoryItem]) -> frozenset[str]:
    return frozenset(session for one in gold if (session := items[one].scope.session) is not None)


def _locomo(sample: Group, items: Mapping[str, MemoryItem]) -> Iterator[Question]:
    for at, asked in enumerate(sample["qa"]):
        named = (
            f"{sample['sample_id']}/D{int(session)}:{int(turn)}"
            for text in asked.get("evidence") or ()
            for session, turn in _EVIDENCE.findall(text)
        )
        gold = frozenset(one for one in named if one in items)
        category = int(asked["category"])
        yield Question(
            id=f"{sample['sample_id']}/{at}",
            text=asked["question"],
            type=LOCOMO_TYPES.get(category, str(category)),
            gold=gold,
            gold_sessions=_sessions(gold, items),
            apart=LOCOMO_TYPES.get(category) == "adversarial",
        )


def _longmemeval(question: Group, items: Mapping[str, MemoryItem]) -> Iterator[Question]:
    name = str(question["question_id"])
    if "_abs" in name:
        # An abstention: the history holds no answer.
        return
    ids = question["haystack_session_ids"]
    names = session_names(ids)
    answers = set(map(str, question["answer_session_ids"]))
    answering = {own for own, one in zip(names, ids, strict=True) if str(one) in answers}
    there = frozenset(one for one, item in items.items() if item.scope.session in answering)
    labelled = frozenset(
        turn_id
        for session, turns in zip(names, question["haystack_sessions"], strict=True)
        for number, turn in enumerate(turns, start=1)
        if turn.get("has_answer") and (turn_id := f"{name}/{session}/{number}") in items
    )
    yield Question(
        id=name,
        text=question["question"],
        type=question["question_type"],
        gold=labelled or there,
        gold_sessions=_sessions(labelled | there, items),
    )


def _units(group: Group, items: Mapping[str, MemoryItem]) -> Iterator[Question]:
    for asked in group.get("queries") or ():
        gold = frozenset(one for unit in asked.get("gold") or () if (one := f"{group['id']}/{unit}") in items)
        yield Question(
            id=str(asked["id"]),
            text=asked["text"],
            type=str(asked.get("type") or "question"),
            asked_at=datetime.fromisoformat(asked["asked_at"]) if asked.get("asked_at") else None,
            gold=gold,
            gold_sessions=_sessions(gold, items),
        )


_QUESTIONS: Final[Mapping[DataForm, tuple[Ask, str]]] = {
    DataForm.LOCOMO: (_locomo, "sample_id"),
    DataForm.LONGMEMEVAL: (_longmemeval, "question_id"),
    DataForm.UNITS: (_units, "id"),
}
"""The reader of a group's questions, and the key of its id."""
