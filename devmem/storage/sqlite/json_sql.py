"""Reading JSON in SQL: the bodies of items, and lists that are parameters.

Some versions of SQLite end a key or a text of JSON at a NUL character, others do not. What a statement reads here has
none, so that each compares whole texts, and an index that one has written is right for another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final


def of_body(expression: str) -> str:
    """Return an expression over the body that is NULL where the body is damaged and no JSON any more."""
    return f"CASE WHEN json_valid(body) THEN {expression} END"


_ESCAPES: Final = (("\\\\", r"\u005c"), (r"\u0001", r"\u0001\u0002"), (r"\u0000", r"\u0001\u0001"))
"""Escapes in a body and those that are read in their place, in this order: once a backslash is none of its own, the
others begin an escape wherever they stand."""
_TEXT_FORMS: Final = {"\x00": "\x01\x01", "\x01": "\x01\x02"}
_TEXTS: Final = {form: text for text, form in _TEXT_FORMS.items()}
_TEXT_TABLE: Final = str.maketrans(_TEXT_FORMS)
_ESCAPED: Final = re.compile("\x01[\x01\x02]")


def _replaced(expression: str, forms: Iterable[tuple[str, str]]) -> str:
    for before, after in forms:
        expression = f"replace({expression}, {before}, {after})"
    return expression


BODY: Final = (
    r"CASE WHEN instr(body, '\u000') THEN "
    + _replaced("body", ((f"'{before}'", f"'{after}'") for before, after in _ESCAPES))
    + " ELSE body END"
)
"""Expression of a body that SQLite reads as JSON exactly, its keys and texts as `json_text` encodes them: some of its
versions end a text of JSON at a NUL character."""


def listed(parameter: str) -> str:
    """Return the query of the texts of a JSON list that `json_list` made."""
    text = _replaced("value", (("char(1, 1)", "char(0)"), ("char(1, 2)", "char(1)")))
    return f"SELECT CASE type WHEN 'text' THEN {text} ELSE value END FROM json_each({parameter})"


def json_list(texts: Iterable[object]) -> str:
    """Return a parameter of `listed`: a JSON list of texts as columns hold them, or of numbers."""
    return json.dumps([_without_nul(each) if isinstance(each, str) else each for each in texts])


def json_text(text: str) -> bytes:
    """Return the bytes of a text as SQLite reads it from `BODY`, where a lone surrogate has some.

    Different texts differ, in the same order by code points, and also where one begins with the other.
    """
    return _without_nul(text).encode("utf-8", "surrogatepass")


def read_json_text(value: bytes) -> str:
    """Return the text of which `json_text` made these bytes."""
    return _ESCAPED.sub(lambda found: _TEXTS[found[0]], value.decode("utf-8", "surrogatepass"))


def _without_nul(text: str) -> str:
    return text.translate(_TEXT_TABLE)


def metadata_value(key: str) -> str:
    """Return the expression of a metadata value, as the index on its key has it."""
    return of_body(f"json_extract({BODY}, '$.metadata.\"{key}\"')")


def metadata_type(key: str) -> str:
    """Return the expression of the JSON type of a metadata value, as the index on its key has it."""
    return of_body(f"json_type({BODY}, '$.metadata.\"{key}\"')")
