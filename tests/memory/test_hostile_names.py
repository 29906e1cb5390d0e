"""Names of users, agents, sessions and conversations as hosts hand them over: whatever they are, no two are one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import devmem

PARTS = ("user", "agent", "session", "conversation")
NAMES = [
    "../../etc/passwd", "..", "/abs", "a/b", "a\\b", "x" * 1_000_000, "ann", "аnn", "ＡＮＮ", "ANN",
    "Ann", "ann\u200b", "ann ", " ann", "e\u0301", "\u00e9", "a\nb", "*", "?", "%", "_", "%2e%2e",
    "'; DROP TABLE items; --", "{conversation}", "$HOME", "~", "-rf", "None", "null", "\N{RIGHT-TO-LEFT OVERRIDE}nna",
]  # fmt: skip
"""Paths, patterns, statements, look-alikes, spellings of one character, and a name of a megabyte."""


@pytest.mark.parametrize(("place", "part"), [*(("notes.db", part) for part in PARTS), ("notes.json", "conversation")])
def test_each_name_has_what_it_was_given(tmp_path: Path, place: str, part: str) -> None:
    folder = tmp_path / "of notes"
    with devmem.open(folder / place, embedding=None) as memory:
        scopes: list[dict[str, Any]] = [{part: name} for name in NAMES]
        for number, scope in enumerate(scopes):
            memory.add(f"note {number}", **scope)
        for number, scope in enumerate(scopes):
            assert [record.text for record in memory.list(9, **scope)] == [f"note {number}"]
            assert [record.text for record in memory.scoped(**scope)] == [f"note {number}"]
        for scope in scopes[::3]:
            assert memory.forget(**scope).items == 1
            assert memory.count(**scope) == 0
        assert memory.count(user=devmem.ANY) == len(NAMES) - len(scopes[::3])
    assert [path.name for path in tmp_path.iterdir()] == ["of notes"]
    assert all(path.name.startswith(place) for path in folder.iterdir())


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", ["", "  ", "\ud800", "a\0b"])
def test_a_name_that_is_none_is_refused(part: str, name: str) -> None:
    """A blank one is that of a variable which is not set; it means neither everybody nor nobody."""
    scope: dict[str, Any] = {part: name}
    with devmem.open(":memory:", embedding=None) as memory:
        memory.add("a note")
        for call in (lambda: memory.add("x", **scope), lambda: memory.list(**scope), lambda: memory.forget(**scope)):
            with pytest.raises(ValueError, match=f"`{part}`"):
                call()
        assert len(memory) == 1
