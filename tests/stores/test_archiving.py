"""Old items of low trust that no agent was shown are archived in the run of a consolidation, and come back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import devmem
from devmem import Memory, MemoryItem, Scope
from devmem.errors import NoArchiveError
from devmem.memory import record_recall
from devmem.stores import PINNED, dump_item
from tests.command_line import run_devmem

NOW = 1_800_000_000.0
DAY = 86_400.0
OLD = NOW - 300 * DAY


def item(item_id: str, text: str, *, stored: float = OLD, trust: float = 0.4, **fields: object) -> MemoryItem:
    return MemoryItem(id=item_id, content_summary=text, created_at=stored, trust=trust, **fields)  # type: ignore[arg-type]


ITEMS = (
    item("old", "The page says that whales sing at night."),
    item("new", "The page says that whales sleep upright.", stored=NOW - DAY),
    item("trusted", "Ann saw a whale.", trust=1.0),
    item("pinned", "The page has a map of whales.", metadata={PINNED: True}),
    item("keyed", "The page counts 12 whales.", metadata={"key": "count"}),
    item("source", "The page lists whales."),
    item("quarantined", "Send whales to me.", trust=0.0),
)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory in a file, searched by words."""
    with devmem.open(tmp_path / "notes.db", embedding=None) as opened:
        opened.store.add(ITEMS)
        opened.add("Whales are listed.", derived_from=["source"])
        yield opened


def contents(memory: Memory) -> dict[str, object]:
    return {record.id: dump_item(record) for record in memory.scan(user=devmem.ANY)}


def archived_ids(memory: Memory) -> set[str]:
    with memory.archived() as old:
        return {record.id for record in old.scan(user=devmem.ANY)}


def test_what_is_old_and_of_low_trust_is_archived_and_revert_restores_every_byte(memory: Memory) -> None:
    before = contents(memory)
    planned = memory.consolidate(archive_before=NOW - 180 * DAY, dry_run=True)
    assert ([each.id for each in planned.archived], planned.recalls_known, contents(memory)) == (["old"], False, before)
    done = memory.consolidate(archive_before=NOW - 180 * DAY)
    assert ([each.id for each in done.archived], archived_ids(memory)) == (["old"], {"old"})
    assert "old" not in memory
    assert [hit.id for hit in memory.search("whales sing at night")][:1] != ["old"]
    assert memory.consolidate(archive_before=NOW - 180 * DAY).run is None
    assert done.run is not None
    memory.revert(done.run)
    assert (contents(memory), archived_ids(memory)) == (before, set())


def test_an_archived_record_is_searched_restored_and_forgotten(memory: Memory) -> None:
    memory.consolidate(archive_before=NOW - 180 * DAY, max_trust=0.5)
    with memory.archived() as old:
        assert [hit.id for hit in old.search("songs of whales that sing")] == ["old"]
    assert [bool(each) for each in memory.restore("old", "new", "unknown", "old")] == [True, False, False, True]
    assert ("old" in memory, archived_ids(memory)) == (True, set())
    memory.consolidate(archive_before=NOW - 180 * DAY)
    assert memory.forget("old", dry_run=True).items == 1
    assert memory.forget("old").items == 1
    assert (archived_ids(memory), list(memory.history("old"))) == (set(), [])


def test_the_same_text_is_new_beside_an_archived_one(memory: Memory) -> None:
    """Archived items are not known to whoever looks for duplicates; forgetting the text forgets both."""
    memory.consolidate(archive_before=NOW - 180 * DAY)
    again = memory.add("The page says that whales sing at night.")
    assert (again != "old", archived_ids(memory)) == (True, {"old"})
    assert memory.forget(again).items == 2
    assert archived_ids(memory) == set()


def test_a_handle_of_a_user_reaches_what_is_archived_of_this_user(memory: Memory) -> None:
    memory.store.add([item("hers", "她的鲸鱼 whales", scope=Scope(user="ann"))])
    memory.consolidate(archive_before=NOW - 180 * DAY, user=devmem.ANY)
    assert archived_ids(memory) == {"old", "hers"}
    bob, ann = memory.scoped(user="bob"), memory.scoped(user="ann")
    assert (bob.get("hers", archived=True), bool(bob.restore("hers")[0])) == (None, False)
    with ann.archived() as old:
        assert [hit.id for hit in old.search("鲸鱼")] == ["hers"]
    assert memory.forget(user="ann").items == 1
    assert archived_ids(memory) == {"old"}


def imported(tmp_path: Path, *items: MemoryItem) -> str:
    file = tmp_path / "data.jsonl"
    file.write_text("".join(json.dumps(dump_item(each)) + "\n" for each in items), encoding="utf-8")
    return run_devmem("import", tmp_path / "notes.db", file).output


def test_an_import_leaves_what_is_archived_there(memory: Memory, tmp_path: Path) -> None:
    """Each night again; a record with other content is stored, and out of the archive."""
    memory.consolidate(archive_before=NOW - 180 * DAY)
    for _ in range(2):
        assert "1 item is archived and stays so" in imported(tmp_path, *ITEMS)
        assert archived_ids(memory) == {"old"}
    other = imported(tmp_path, item("old", "The page says that whales sing at noon."))
    assert "1 item has other content now than before under the same id: old" in other
    assert (archived_ids(memory), "old" in memory) == (set(), True)
    assert [change.operation for change in memory.history("old")][-1:] == ["add"]


def test_a_copy_leaves_archived_items_of_its_target_in_the_archive(memory: Memory, tmp_path: Path) -> None:
    places = (tmp_path / "notes.db", tmp_path / "copy.db")
    run_devmem("copy", *places)
    with devmem.open(places[1], embedding=None) as target:
        target.consolidate(archive_before=NOW - DAY * 30)
        kept, current = archived_ids(target), set(contents(target))
        assert "old" in kept
        run_devmem("copy", *places, code=None)
        assert (archived_ids(target), set(contents(target))) == (kept, current)
        memory.store.add([item("old", "The page says that whales sing all day.")])
        run_devmem("copy", *places, code=None)
        assert target.store.get(["old"])[0].content_summary == "The page says that whales sing all day."
        assert archived_ids(target) == kept - {"old"}


def test_a_copy_archives_what_was_archived(memory: Memory, tmp_path: Path) -> None:
    memory.consolidate(archive_before=NOW - 180 * DAY)
    for _ in range(2):
        run_devmem("copy", tmp_path / "notes.db", tmp_path / "copy.db")
        with devmem.open(tmp_path / "copy.db", embedding=None) as target:
            assert (archived_ids(target), contents(target)) == ({"old"}, contents(memory))
    assert "archive" in run_devmem("copy", tmp_path / "notes.db", tmp_path / "copy.json", code=None).output


WORKFLOW = """
memory:
  - name: notes
    type: simple
    config:
      memory_path: notes.db
      consolidate: {every: 1d, archive: {after: 180d, max_trust: 0.5}}
record_recalls: true
nodes: []
"""


def test_what_an_agent_was_shown_stays(tmp_path: Path) -> None:
    """The logs of all sessions tell; what was merged into an item counts for it."""
    (tmp_path / "team.yaml").write_text(WORKFLOW, encoding="utf-8")
    with devmem.open(f"{tmp_path / 'team.yaml'}#notes") as memory:
        memory.store.add([item("shown", "Whales sing."), item("found", "Whales swim."), item("twin", "whales swim!")])
        record_recall(memory, "whales", memory.search("sing"), host="test", began=0.0)
        record_recall(
            memory, "whales", [hit for hit in memory.search("swim") if hit.id == "twin"], host="test", began=0.0
        )
        memory.store.add([item("unseen", "Whales jump.")])
        done = memory.consolidate(archive_before=NOW)
        assert (done.removed, [each.id for each in done.archived], done.recalls_known) == (1, ["unseen"], True)


def test_a_place_without_an_archive_refuses(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.json", embedding=None) as memory:
        for refused in (memory.archived, lambda: memory.restore("old")):
            with pytest.raises(
                NoArchiveError, match=r"has no archive: its items are in .*notes\.json, which has none\. S"
            ):
                refused()
