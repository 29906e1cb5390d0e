"""Whatever texts and names go in come out, and no two names are one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import devmem

_CHARACTERS: Final = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS: Final = st.text(_CHARACTERS, min_size=1, max_size=60).filter(str.strip)
NAMES: Final = st.text(_CHARACTERS, min_size=1, max_size=12).filter(str.strip)
_VALUES: Final = st.text(_CHARACTERS, max_size=8) | st.integers(-(2**63), 2**63 - 1) | st.booleans()
METADATA: Final = st.dictionaries(st.text(_CHARACTERS, max_size=8), _VALUES, max_size=3)


@given(text=TEXTS, other=TEXTS, metadata=METADATA, user=st.none() | NAMES)
def test_a_text_goes_in_and_comes_out(text: str, other: str, metadata: dict[str, str | int], user: str | None) -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        item_id = memory.add(text, user=user, metadata=metadata)
        record = memory.get(item_id)
        assert record is not None
        assert (record.text, record.user, record.metadata) == (text, user, metadata)
        assert [each.text for each in memory.list(user=user)] == [text]
        memory.update(item_id, other)
        assert [each.text for each in memory.list(user=user, where=devmem.Filter(metadata=metadata))] == [other]
        assert memory.forget(item_id).items == 1
        assert len(memory) == 0


@given(role=st.sampled_from(["user", "assistant", "system", "tool"]), text=TEXTS, name=st.none() | NAMES)
def test_a_message_goes_in_and_comes_out(role: str, text: str, name: str | None) -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        (item_id,) = memory.add({"role": role, "content": text, "name": name})
        record = memory.get(item_id)
        assert record is not None
        assert (record.text, record.role) == (text, role)
        assert record.message is not None
        assert record.message.source == (name or "")


PARTS = ("user", "agent", "session", "conversation")
HOSTILE = [
    "../../etc/passwd", "..", "/abs", "a/b", "a\\b", "x" * 1_000_000, "ann", "аnn", "ＡＮＮ", "ANN",
    "Ann", "ann\u200b", "ann ", " ann", "e\u0301", "\u00e9", "a\nb", "*", "?", "%", "_", "%2e%2e",
    "'; DROP TABLE items; --", "{conversation}", "$HOME", "~", "-rf", "None", "null", "\N{RIGHT-TO-LEFT OVERRIDE}nna",
]  # fmt: skip
"""Paths, patterns, statements, look-alikes, spellings of one character, and a name of a megabyte."""


@pytest.mark.parametrize(("place", "part"), [*(("notes.db", part) for part in PARTS), ("notes.json", "conversation")])
def test_each_name_has_what_it_was_given(tmp_path: Path, place: str, part: str) -> None:
    folder = tmp_path / "of notes"
    with devmem.open(folder / place, embedding=None) as memory:
        scopes: list[dict[str, Any]] = [{part: name} for name in HOSTILE]
        for number, scope in enumerate(scopes):
            memory.add(f"note {number}", **scope)
        for number, scope in enumerate(scopes):
            assert [record.text for record in memory.list(9, **scope)] == [f"note {number}"]
            assert [record.text for record in memory.scoped(**scope)] == [f"note {number}"]
        for scope in scopes[::3]:
            assert memory.forget(**scope).items == 1
            assert memory.count(**scope) == 0
        assert memory.count(user=devmem.ANY) == len(HOSTILE) - len(scopes[::3])
    assert [path.name for path in tmp_path.iterdir()] == ["of notes"]
    assert all(path.name.startswith(place) for path in folder.iterdir())


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", ["", "  ", "\ud800", "a\0b"])
def test_a_name_that_is_none_is_refused(part: str, name: str) -> None:
    """A blank name comes from an unset variable; it selects neither all users nor unscoped items."""
    scope: dict[str, Any] = {part: name}
    with devmem.open(":memory:", embedding=None) as memory:
        memory.add("a note")
        for call in (lambda: memory.add("x", **scope), lambda: memory.list(**scope), lambda: memory.forget(**scope)):
            with pytest.raises(ValueError, match=f"`{part}`"):
                call()
        assert len(memory) == 1
