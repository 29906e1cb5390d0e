"""Whatever text goes in comes out, whoever it belongs to."""

from __future__ import annotations

from typing import Final

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


@given(text=TEXTS)
def test_a_text_is_found_by_itself_as_far_as_it_has_words(text: str) -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        memory.add(f"cinnamon {text}")
        assert [hit.text for hit in memory.search("cinnamon")] == [f"cinnamon {text}"]


@given(first=NAMES, second=NAMES, part=st.sampled_from(["user", "agent", "session", "conversation"]))
def test_names_that_differ_are_different_scopes(first: str, second: str, part: str) -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        ours = memory.scoped(**{part: first})
        item_id = ours.add("The secret is cinnamon.")
        theirs = memory.scoped(**{part: second})
        inside = first == second
        assert (theirs.get(item_id) is not None) == inside
        assert bool(theirs.search("cinnamon")) == bool(theirs.list()) == inside
        assert theirs.forget(item_id).items == int(inside)


@given(repeats=st.integers(min_value=20, max_value=120), ending=TEXTS)
def test_a_long_text_comes_out_whole(repeats: int, ending: str) -> None:
    text = "A sentence of about fifty characters, more or less. " * repeats + ending
    with devmem.open(":memory:", embedding=None) as memory:
        record = memory.get(memory.add(text))
        assert record is not None
        assert record.text == text
        assert len(record.content_summary) <= max(1000, len(text) if len(text) <= 1000 else 1000)


@given(role=st.sampled_from(["user", "assistant", "system", "tool"]), text=TEXTS, name=st.none() | NAMES)
def test_a_message_goes_in_and_comes_out(role: str, text: str, name: str | None) -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        (item_id,) = memory.add({"role": role, "content": text, "name": name})
        record = memory.get(item_id)
        assert record is not None
        assert (record.text, record.role) == (text, role)
        assert record.message is not None
        assert record.message.source == (name or "")
