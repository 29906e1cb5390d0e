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


@given(role=st.sampled_from(["user", "assistant", "system", "tool"]), text=TEXTS, name=st.none() | NAMES)
def test_a_message_goes_in_and_comes_out(role: str, text: str, name: str | None) -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        (item_id,) = memory.add({"role": role, "content": text, "name": name})
        record = memory.get(item_id)
        assert record is not None
        assert (record.text, record.role) == (text, role)
        assert record.message is not None
        assert record.message.source == (name or "")
