"""Tables of cases for parametrised tests, one case a line of a JSON file in `tests/data/cases`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).with_name("data") / "cases"


@cache
def _tables(file: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = json.loads((_FOLDER / f"{file}.json").read_text("utf-8"))
    return found


def cases(file: str, test: str) -> list[Any]:
    """Return the cases of a test, in their order."""
    return _tables(file)[test]
