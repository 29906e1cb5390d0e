"""States of conversations: as bytes, and two of them joined."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.messages import Message, Role
from devmem_stores.brain.state import BrainState, StoredMessage, Summary, dump_state, load_state, merge, without

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=12)


def entry(number: int, content: str = "said") -> StoredMessage:
    return StoredMessage(message=Message(content, id=f"m{number}", created_at=float(number)), item_id=f"i{number}")


def summary(name: str, first: int, count: int, level: int = 1) -> Summary:
    return Summary(
        id=name,
        text=f"summary {name}",
        level=level,
        start=float(first),
        end=float(first + count - 1),
        messages=count,
        sources=tuple(f"i{n}" for n in range(first, first + count)),
    )


@st.composite
def states(draw: st.DrawFn) -> BrainState:
    """A state as it comes about: the first messages summarized in runs, some of the rest in the history."""
    at, summaries = 0, []
    for number, count in enumerate(draw(st.lists(st.integers(1, 3), max_size=3))):
        summaries.append(summary(f"s{number}{count}{draw(st.sampled_from('ab'))}", at, count))
        at += count
    rest = draw(st.sets(st.integers(at, at + 5)))
    return BrainState(
        entries=tuple(entry(n) for n in sorted(rest)),
        knowledge_entries=tuple(entry(n) for n in sorted(draw(st.sets(st.integers(100, 103))))),
        summaries=tuple(summaries),
        version=draw(st.integers(0, 9)),
    )


@given(one=states(), two=states())
def test_joining_loses_no_message_and_tells_none_twice(one: BrainState, two: BrainState) -> None:
    joined = merge(one, two)
    assert joined.known_items() == one.known_items() | two.known_items()
    assert merge(two, one).known_items() == joined.known_items()
    assert not {e.item_id for e in joined.entries} & joined.summarized_items()
    assert [e.message.created_at for e in joined.entries] == sorted(e.message.created_at for e in joined.entries)
    assert joined.version == max(one.version, two.version)


@given(one=states(), two=states(), gone=st.sets(st.sampled_from([f"i{n}" for n in range(12)])))
def test_what_one_side_forgot_stays_forgotten(one: BrainState, two: BrainState, gone: set[str]) -> None:
    forgot = without(one, gone, lambda items: [entry(int(item[1:])) for item in items])
    assert not forgot.known_items() & gone
    assert forgot.known_items() == one.known_items() - gone
    if forgot != one:
        assert not merge(forgot, two).known_items() & gone
        assert not merge(two, forgot).known_items() & gone


def test_the_summary_of_more_messages_is_taken() -> None:
    one = BrainState(summaries=(summary("of ten", 0, 10),), entries=(entry(10),), version=3)
    two = BrainState(summaries=(summary("of eight", 0, 8),), entries=tuple(map(entry, (8, 9, 10, 11))), version=5)
    joined = merge(two, one)
    assert [s.id for s in joined.summaries] == ["of ten"]
    assert [e.item_id for e in joined.entries] == ["i10", "i11"]


@given(state=states(), text=TEXTS, talk=st.none() | TEXTS, role=st.sampled_from(Role))
def test_bytes_and_back(state: BrainState, text: str, talk: str | None, role: Role) -> None:
    said = Message(text, role=role, source="x", metadata={"a": [1, None]}, created_at=1.5)
    state = BrainState(
        entries=(*state.entries, StoredMessage(message=said, item_id="last")),
        summaries=state.summaries,
        last_talk=talk,
        last_history_id=said.id,
        last_number=7,
        removed=("i1",),
        version=state.version,
    )
    again = load_state(dump_state(state))
    assert again == state
    assert again.entries[-1].message.identical(said)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"text": "Hello"}',
        b"\xff",
        b'{"entries": [{"message": {"type": "Unheard"}, "item_id": "i"}]}',
        b'{"summaries": [{}]}',
    ],
)
def test_other_values_are_not_states(raw: bytes) -> None:
    with pytest.raises(ValueError):
        load_state(raw)
