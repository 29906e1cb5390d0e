"""Reading a chat model's grades, in the forms in which models give them; what could mean two things is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from pydantic import JsonValue

from devmem.errors import RerankerError

HIGHEST: Final = 10.0

_Pair: TypeAlias = tuple[int, str]
"""Number of a note, and what is written where its grade belongs."""

_EMPHASIS: Final = re.compile(r"[*_`]+")
_BETWEEN: Final = re.compile(r"[,;]\s+")
"""Between grades on one line; a comma without a blank may be a decimal one."""
_GRADED: Final = re.compile(
    r"\W*(?:(?:grades?|scores?|notes?|numbers?|no|items?|texts?)\b\W*)*(?P<number>\d+)\s*[\])]?\s*"
    r"(?:[-=]>|→|[:：=|]|(?<=\s)[-–—](?=\s)|\.(?=\s)|(?<=[\])])|(?<=[\])]\s))\s*"
    r"(?:(?:grade|score)\b\W*)?(?P<grade>[-+]?\d.*)",
    re.IGNORECASE,
)
"""A line for a note: its number, what sets it off, and then a digit; `7.5` alone is none."""
_GRADE: Final = re.compile(
    r"(?P<grade>\d+(?:\.\d+)?)(?:\s*(?:/|out of)\s*10)?(?:\s*[^\w\s/%](?:(?!\s*\d).*)?)?", re.IGNORECASE
)
"""A grade, of 10 or without saying of what, and perhaps a remark that is set off and begins with no other number."""
_NUMBER_KEYS: Final = ("number", "note", "id")
_GRADE_KEYS: Final = ("grade", "score")


def read_grades(answer: str, count: int) -> dict[int, float]:
    """Give the grades from 0 to 10 by the number of the note, which starts at 1; notes may be missing.

    Args:
        answer: what the model said.
        count: how many notes it was shown; what is said of others is passed over.

    Raises:
        RerankerError: there are no grades, or it is not clear what they are.
    """
    found: dict[int, float] = {}
    for number, written in _pairs_of_json(answer) or _pairs_of_lines(answer):
        if number == 0:
            raise RerankerError(f"the chat model numbers the notes from 0 where they start at 1: {_cut(answer)}.")
        if number > count:
            continue
        grade = _grade(written)
        if found.setdefault(number, grade) != grade:
            raise RerankerError(f"the chat model gave note {number} two grades: {_cut(answer)}.")
    if not found:
        raise RerankerError(f"the chat model gave no grades; it said {_cut(answer)}.")
    return found


def _grade(written: str) -> float:
    match = _GRADE.fullmatch(_narrowed(written))
    if match is None or float(match["grade"]) > HIGHEST:
        raise RerankerError(f"the chat model gave {_cut(written)} where a grade from 0 to 10 belongs.")
    return float(match["grade"])


def _pairs_of_lines(answer: str) -> Iterator[_Pair]:
    for line in answer.splitlines():
        for part in _BETWEEN.split(_EMPHASIS.sub("", line)):
            match = _GRADED.fullmatch(_narrowed(part))
            if match is not None:
                yield int(match["number"]), match["grade"]


def _pairs_of_json(answer: str) -> list[_Pair]:
    """Give the grades in the answer's JSON; none where it has no such JSON."""
    pairs: list[_Pair] = []
    end = 0
    for start in re.finditer(r"[{\[]", answer):
        if start.start() < end:
            continue
        try:
            value, end = _JSON.raw_decode(answer, start.start())
        except ValueError:
            # A bracket of a line, as in `[1]: 7`, or of a remark.
            continue
        pairs += _pairs_in(value)
    return pairs


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RerankerError(f"the chat model gave two values for one key: {_cut(str(pairs))}.")
    return found


_JSON: Final = json.JSONDecoder(object_pairs_hook=_unique)


def _pairs_in(value: JsonValue) -> Iterator[_Pair]:
    """Find `{"1": 7}`, or objects with a number and a grade, also within one key as in `{"grades": ...}`."""
    if isinstance(value, list):
        for each in value:
            if isinstance(each, dict):
                yield from _pairs_in(each)
    elif isinstance(value, dict):
        number, grade = _first(value, _NUMBER_KEYS), _first(value, _GRADE_KEYS)
        if number is not None and grade is not None:
            yield from _numbered([(number, grade)])
        elif len(value) == 1 and isinstance(inner := next(iter(value.values())), (dict, list)):
            yield from _pairs_in(inner)
        else:
            yield from _numbered(value.items())


def _numbered(pairs: Iterable[tuple[JsonValue, JsonValue]]) -> Iterator[_Pair]:
    for number, grade in pairs:
        if str(number).isdecimal():
            yield int(str(number)), str(grade)


def _first(value: Mapping[str, JsonValue], keys: Iterable[str]) -> JsonValue:
    return next((value[key] for key in keys if key in value), None)


def _narrowed(text: str) -> str:
    # Long runs of blanks would cost the patterns time.
    return " ".join(text.split())


def _cut(text: str) -> str:
    return repr(text[:80])
