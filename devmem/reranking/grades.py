"""Reading the grades that a chat model gives: a JSON object by note number, or else a line for each note."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Annotated, Final, TypeAlias

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from devmem.errors import RerankerError
from devmem.text.patterns import lazy_pattern

HIGHEST: Final = 10

_Pairs: TypeAlias = list[tuple[str, JsonValue]]
"""Numbers of notes with what is written as their grades."""

_LINE: Final = lazy_pattern(
    r"^[^\w\n]{0,4}(?:note )?[^\w\n]{0,4}(?P<number>\d{1,6})[\])*]{0,3}(?: ?[:：]|\.(?= )|(?<=[\])])) ?\*{0,2} ?"
    r"(?P<grade>[-+]?\d\S{0,20}?)\*{0,2}(?: ?/ ?10)?\.?$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line such as `3: 7`, `[3]: 7.5` or `**3**: 7/10`; a remark behind the grade makes it none."""


@cache
def _grade() -> TypeAdapter[float]:
    return TypeAdapter(Annotated[float, Field(ge=0, le=HIGHEST, allow_inf_nan=False)])


def read_grades(answer: str, count: int) -> dict[int, float]:
    """Return the grades from 0 to 10 by the number of the note, counted from 1; notes may be missing.

    Args:
        answer: the model's answer.
        count: number of notes that it was shown; grades of others are ignored.

    Raises:
        RerankerError: there are no grades, or it is not clear what they are.
    """
    found: dict[int, float] = {}
    for name, written in _from_json(answer) or _from_lines(answer):
        number = int(name) if name.isdecimal() else -1
        if number == 0:
            raise RerankerError(f"the chat model numbers the notes from 0 where they start at 1: {_cut(answer)}.")
        if not 0 < number <= count:
            continue
        grade = _checked(written)
        if found.setdefault(number, grade) != grade:
            raise RerankerError(f"the chat model gave note {number} two grades: {_cut(answer)}.")
    if not found:
        raise RerankerError(f"the chat model gave no grades; it said {_cut(answer)}.")
    return found


def _checked(written: JsonValue) -> float:
    plain = written.removesuffix("/10") if isinstance(written, str) else written
    try:
        return _grade().validate_python(plain, strict=not isinstance(plain, str))
    except ValidationError:
        shown = _cut(json.dumps(written, ensure_ascii=False))
        raise RerankerError(f"the chat model gave {shown} where a grade from 0 to 10 belongs.") from None


def _from_json(answer: str) -> _Pairs:
    """Return the entries of the JSON object in an answer, also of one within a single key, as in `{"grades": ...}`."""
    start, end = answer.find("{"), answer.rfind("}")
    try:
        pairs = json.loads(answer[start : end + 1], object_pairs_hook=list)
    except (ValueError, RecursionError):
        return []
    while isinstance(pairs, list) and len(pairs) == 1 and isinstance(pairs[0][1], list):
        pairs = pairs[0][1]
    return [(str(name), value) for name, value in pairs] if _are_pairs(pairs) else []


def _are_pairs(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, tuple) for each in value)


def _from_lines(answer: str) -> _Pairs:
    # Long runs of blanks would cost the pattern time.
    lines = "\n".join(" ".join(line.split()) for line in answer.splitlines())
    return [(match["number"], match["grade"]) for match in _LINE.finditer(lines)]


def _cut(text: str) -> str:
    return repr(text[:80])
