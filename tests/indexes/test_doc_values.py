"""The doc_values gives what a plain list gives, and knows the neighbours in every conversation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from devmem.indexes.doc_values import DocEntry, DocValues

NAMES = st.none() | st.sampled_from(["a", "b"])
ENTRIES = st.builds(
    DocEntry,
    row=st.just(0),
    agent=NAMES,
    user=NAMES,
    session=NAMES,
    conversation=NAMES,
    speaker=st.none() | st.sampled_from(["Ann", "Bob", "李四"]),
    cues=st.integers(0, 3),
    length=st.integers(0, 2000),
    time=st.floats(0, 4e9),
    importance=st.none() | st.floats(0, 1, width=32),
)


@dataclass(frozen=True)
class Add:
    entries: list[DocEntry]


@dataclass(frozen=True)
class Remove:
    rows: list[int]


@dataclass(frozen=True)
class Reopen:
    """The snapshot is written and read."""


OPERATIONS = st.lists(
    st.lists(ENTRIES, max_size=5).map(Add)
    | st.lists(st.integers(1, 25), max_size=4, unique=True).map(Remove)
    | st.just(Reopen()),
    max_size=12,
)


def conversation_of(entry: DocEntry) -> tuple[str | None, ...] | None:
    if entry.conversation is None and entry.session is None:
        return None
    return entry.conversation, entry.session, entry.agent, entry.user


class Thrifty(DocValues):
    """Gives room back at once."""

    least_removed = 0


def applied(
    operations: list[Add | Remove | Reopen], kind: type[DocValues] = Thrifty
) -> tuple[DocValues, list[DocEntry], int]:
    """Give the doc_values, what a plain list has, and the highest row that was ever given."""
    doc_values, plain, last = kind(), list[DocEntry](), 0
    for operation in operations:
        if isinstance(operation, Add):
            entries = []
            for entry in operation.entries:
                last += 1
                entries.append(replace(entry, row=last))
            doc_values.add(entries)
            plain += entries
        elif isinstance(operation, Remove):
            doc_values.remove(operation.rows)
            plain = [entry for entry in plain if entry.row not in operation.rows]
        else:
            doc_values = kind.restore(doc_values.parts())
    return doc_values, plain, last


@given(operations=OPERATIONS, kind=st.sampled_from([DocValues, Thrifty]))
def test_the_facts_are_those_of_a_list(operations: list[Add | Remove | Reopen], kind: type[DocValues]) -> None:
    doc_values, plain, last = applied(operations, kind)
    assert doc_values.last_row == last
    places = doc_values.positions(np.arange(27))
    assert [row for row in range(27) if places[row] >= 0] == [entry.row for entry in plain]
    kept = doc_values.positions(np.array([entry.row for entry in plain], dtype=np.int64))
    assert doc_values.rows(kept).tolist() == [entry.row for entry in plain]
    assert doc_values.speakers(kept) == [entry.speaker for entry in plain]
    for name in ("time", "length", "cues"):
        assert doc_values.facts(kept)[name].tolist() == [getattr(entry, name) for entry in plain]
    assert doc_values.facts(kept)["importance"].tolist() == [entry.importance or 0.0 for entry in plain]


@given(operations=OPERATIONS)
def test_conversations_are_told_apart(operations: list[Add | Remove | Reopen]) -> None:
    """By conversation, session, agent and user together; what is of none has the number 0."""
    doc_values, plain, _ = applied(operations)
    numbers = doc_values.facts(doc_values.positions(np.array([entry.row for entry in plain], dtype=np.int64)))["thread"]
    by_name = dict(zip(map(conversation_of, plain), numbers.tolist(), strict=True))
    assert [by_name[conversation_of(entry)] for entry in plain] == numbers.tolist()
    assert len(set(by_name.values())) == len(by_name)
    assert by_name.get(None, 0) == 0
    assert all(number for name, number in by_name.items() if name is not None)


@given(operations=OPERATIONS, kind=st.sampled_from([DocValues, Thrifty]))
def test_neighbours_are_those_of_a_list(operations: list[Add | Remove | Reopen], kind: type[DocValues]) -> None:
    """What was around a deleted item becomes neighbours, also after the snapshot was read."""
    doc_values, plain, _ = applied(operations, kind)
    rows = np.array([entry.row for entry in plain], dtype=np.int64)
    around = [
        [int(doc_values.rows(step[at : at + 1])[0]) if step[at] >= 0 else None for at in range(len(rows))]
        for step in doc_values.around(doc_values.positions(rows), 2)
    ]
    for at, entry in enumerate(plain):
        name = conversation_of(entry)
        same = [other.row for other in plain if conversation_of(other) == name] if name else [entry.row]
        place = same.index(entry.row)
        padded = [None, None, *same, None, None]
        wanted = [padded[place + 1], padded[place], padded[place + 3], padded[place + 4]]
        assert [step[at] for step in around] == wanted


def test_room_is_given_back() -> None:
    doc_values = DocValues()
    for start in range(0, 100_000, 100):
        doc_values.add(
            [DocEntry(row, "a", "u", "s", "c", None, 0, 1, 1.0, None) for row in range(start + 1, start + 101)]
        )
        doc_values.remove(range(start - 99, start + 1))
    assert doc_values.last_row == 100_000
    assert doc_values.parts()["table"].nbytes < 200_000
    newest = doc_values.positions(np.array([99_901, 99_902]))
    assert doc_values.rows(doc_values.around(newest, 1)[1]).tolist() == [99_902, 99_903]
    assert doc_values.around(newest, 1)[0].tolist() == [-1, newest[0]]


def test_an_empty_ledger() -> None:
    for doc_values in (DocValues(), DocValues.restore(DocValues().parts())):
        assert doc_values.last_row == 0
        assert doc_values.positions(np.array([1, 2])).tolist() == [-1, -1]
        doc_values.remove([1])
        doc_values.add([])
        assert doc_values.last_row == 0
