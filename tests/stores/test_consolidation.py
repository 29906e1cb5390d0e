"""Near-duplicates of a store become one item, in a run that is committed as a whole and can be reverted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import devmem
from devmem import Memory, MemoryItem
from devmem.errors import ConsolidationError, NoVersionsError
from devmem.messages import UserMessage
from devmem.stores import Provenance, SourceKind, dump_item

# A pure function: a store for each of its cases would take seconds.
from devmem.text.duplicates import statement_form
from tests.conftest import StartScript
from tests.dying import DYING

LAUNCH = "Ann moved the launch to June 2nd."
SAME = (
    "Hi, ANN moved the launch to June 2nd!",
    "ann moved launch to June 2nd. Thanks.",
    "* **Ann** moved the launch to “June 2nd”",
)
OTHERS = (
    "Ann moved the launch to June 3rd.",
    "Ann did not move the launch to June 2nd.",
    "Bob moved the launch to June 2nd.",
    "Did Ann move the launch to June 2nd?",
    "Ann moves the launch to June 2nd.",
)  # fmt: skip


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    """A memory in a file, searched by words."""
    return devmem.open(tmp_path / "notes.db", embedding=None)


def contents(memory: Memory) -> dict[str, Mapping[str, object]]:
    """Return the whole of each item, by id."""
    return {record.id: dump_item(record) for record in memory.scan(user=devmem.ANY)}


def notes_of(item: MemoryItem) -> list[Any]:
    """Return what an item tells of those that were merged into it."""
    found = item.metadata["devmem.merged"]
    assert isinstance(found, list)
    return found


def texts(memory: Memory) -> list[str]:
    return sorted(record.text for record in memory.scan(user=devmem.ANY))


def test_texts_that_say_the_same_become_one_and_revert_restores_every_byte(memory: Memory) -> None:
    ids = memory.add([LAUNCH, *SAME, *OTHERS])
    before = contents(memory)
    planned = memory.consolidate(dry_run=True)
    assert (planned.run, planned.items, planned.removed) == (None, 9, 3)
    assert contents(memory) == before
    done = memory.consolidate()
    assert (done.items, done.removed) == (9, 3)
    assert [merge.kept.id for merge in done.merges] == [ids[0]]
    assert texts(memory) == sorted([LAUNCH, *OTHERS])
    (kept,) = memory.get([ids[0]])
    assert [(note["id"], note["text"]) for note in notes_of(kept)] == list(zip(ids[1:4], SAME, strict=True))
    assert memory.consolidate().run is None
    assert done.run is not None
    memory.revert(done.run)
    assert contents(memory) == before


def test_an_item_of_another_scope_is_never_merged(memory: Memory) -> None:
    scopes: list[dict[str, Any]] = [
        {"user": "ann"},
        {"user": "bob"},
        {"user": "ann", "agent": "writer"},
        {"user": "ann", "session": "s"},
        {},
    ]
    for scope in scopes:
        memory.add([LAUNCH, SAME[0]], **scope)
    done = memory.scoped(user="ann").consolidate()
    assert done.removed == 3
    assert all({item.scope.user for item in (each.kept, *each.merged)} == {"ann"} for each in done.merges)
    assert memory.count(user="bob") == memory.count() == 2
    assert memory.consolidate(user=devmem.ANY).removed == 2


def test_what_is_protected_stays(memory: Memory) -> None:
    source = Provenance(kind=SourceKind.TOOL, name="web")
    memory.add(SAME[0], metadata={"pinned": True})
    memory.add(SAME[1], key="launch")
    memory.add(SAME[2], trust=0, source=source)
    parent = memory.add(LAUNCH)
    memory.add("The venue has to be booked.", derived_from=[parent])
    memory.add("ann moved the launch to june 2nd", derived_from=[parent])
    memory.add([UserMessage(content=LAUNCH), UserMessage(content="Ann moved the launch to June 2nd")], conversation="c")
    before = contents(memory)
    assert memory.consolidate(user=devmem.ANY).run is None
    assert contents(memory) == before


def test_values_of_metadata_and_days_tell_items_apart(memory: Memory) -> None:
    memory.add(LAUNCH, metadata={"line": 1, "project": "a"})
    memory.add(SAME[0], metadata={"line": 2, "project": "a"})
    memory.add(SAME[1], metadata={"line": 3, "project": "b"})
    assert memory.consolidate(dry_run=True).removed == 0
    done = memory.consolidate(ignore=["line"])
    assert done.removed == 1
    (note,) = notes_of(done.merges[0].kept)
    assert note["metadata"] == {"line": 2}
    memory.add("I went for a run.", time="2026-05-03")
    memory.add("i went for a run", time="2026-05-09")
    memory.add("I went for a run!", time="2026-05-09T12:00")
    assert memory.consolidate().removed == 1


def test_the_most_trusted_is_left_and_never_expires_where_one_does_not(memory: Memory) -> None:
    source = Provenance(kind=SourceKind.TOOL, name="web")
    memory.add(SAME[0], source=source)
    ann = memory.add(LAUNCH)
    memory.add(SAME[1], expires_at="in 1 day")
    memory.add(SAME[2], expires_at="in 2 days")
    done = memory.consolidate()
    assert done.removed == 2
    assert {merge.kept.id for merge in done.merges} >= {ann}
    (note,) = notes_of(memory.get([ann])[0])
    assert note["source"] == {"kind": "tool", "name": "web"}
    (limited,) = [record for record in memory.scan() if record.expires_at is not None]
    assert limited.expires_at is not None
    assert limited.expires_at - memory.store.setup.clock() > 86_400


_DYING = (
    DYING
    + """
import shutil
file, share = sys.argv[1:]
shutil.copy(file, file + "-copy.db")
with devmem.open(file + "-copy.db", embedding=None) as memory:
    lines = lines_of(memory.consolidate)
with devmem.open(file, embedding=None) as memory:
    die_after(int(lines * float(share)), memory.consolidate)
os._exit(9)
"""
)


@pytest.mark.parametrize("places", [8, pytest.param(80, marks=pytest.mark.kit)])
def test_an_interrupted_run_begins_again(tmp_path: Path, start_script: StartScript, places: int) -> None:
    for number in range(1, places):
        file = tmp_path / f"{number}.db"
        with devmem.open(file, embedding=None) as memory:
            for pair in range(20):
                memory.add([f"Note {pair} is done.", f"note {pair} is DONE"])
            before = contents(memory)
        assert start_script(_DYING, file, number / places).wait(60) == 9
        with devmem.open(file, embedding=None) as memory:
            assert contents(memory) == before or len(memory) == 20
            memory.consolidate()
            assert len(memory) == 20
            (run,) = [info.run for info in memory.runs() if info.state == "committed"]
            memory.revert(run)
            assert contents(memory) == before


def test_a_store_that_could_not_put_anything_back_is_refused(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.json", embedding=None) as memory, pytest.raises(NoVersionsError):
        memory.consolidate()
    (tmp_path / "team.yaml").write_text("memory: [{name: n, type: simple, config: {memory_path: n.db, history: none}}]")
    refused = pytest.raises(ConsolidationError, match="store 'n' cannot be consolidated: its `history` is `none`")
    with devmem.open(f"{tmp_path / 'team.yaml'}#n") as memory, refused:
        memory.consolidate()


def test_embeddings_stay(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "v.db", embedding={"provider": "given", "model": "m"}) as memory:
        ids = [memory.add(text, embedding=[1.0, 0.0, 0.5]) for text in (LAUNCH, "ann moved the launch to june 2nd")]
        before = contents(memory)
        done = memory.consolidate(ignore=["devmem.vector"])
        assert done.removed == 1
        assert contents(memory)[ids[0]]["embedding"] == before[ids[0]]["embedding"]
        assert memory.store.info().waiting == 0
        assert done.run is not None
        memory.revert(done.run)
        assert contents(memory) == before


@given(st.lists(st.sampled_from("Ann two 2 cats not don't the red 3 $5 -5 你好 茶 不 C++ ?".split()), min_size=1))
def test_case_marks_and_layout_do_not_count(words: list[str]) -> None:
    text = " ".join(words)
    form = statement_form(text)
    assert statement_form(f"  {text}\n") == form
    assert statement_form(text.swapcase() + ".") == form
    assert statement_form("\n".join(words) + "!") == form


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("-5 degrees", "5 degrees"),
        ("她不喜欢茶", "她喜欢茶"),
        ("I can go", "I can't go"),
        ("x < 5", "x > 5"),
        ("We meet at 10:30", "We meet at 10 30"),
    ],
)
def test_texts_that_differ_in_meaning_differ_in_form(one: str, other: str) -> None:
    assert statement_form(one) != statement_form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I can’t come, thanks.", "i cannot come"),
        ("Ann has two cats.", "Ann has 2 cats!"),
        ("你好，会议在三点。谢谢。", "会议在三点"),
        ("Please note that the door is open.", "The door is open"),
        ("Ｆｕｌｌ　ｗｉｄｔｈ", "full width"),
    ],
)
def test_texts_that_say_the_same_have_one_form(one: str, other: str) -> None:
    assert statement_form(one) == statement_form(other)
