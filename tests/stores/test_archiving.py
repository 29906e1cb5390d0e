"""Old items of low trust that no agent was shown are archived in the run of a consolidation, and come back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import devmem
from devmem import Caller, Hit, Memory, MemoryItem, MemoryRetrievalResult, Scope, Stage, load_workflow
from devmem.errors import NoArchiveError
from devmem.storage.recall_log import FILE_NAME, Recall, RecallLog
from devmem.stores import PINNED, dump_item
from devmem.stores.archiving import ArchiveRule
from devmem.stores.consolidation import consolidate, consolidate_when_due
from devmem.transfer.copy import copy_items
from devmem.transfer.filling import ARCHIVED, UNARCHIVED, Filler
from devmem.workflow.stores import make_store

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
    return {record.id: dump_item(record.item) for record in memory.scan(user=devmem.ANY)}


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
    assert memory.forget("old", dry_run=True) == 1
    assert memory.forget("old") == 1
    assert (archived_ids(memory), list(memory.history("old"))) == (set(), [])


def test_the_same_text_is_new_beside_an_archived_one(memory: Memory) -> None:
    """Archived items are not known to whoever looks for duplicates; forgetting the text forgets both."""
    memory.consolidate(archive_before=NOW - 180 * DAY)
    again = memory.add("The page says that whales sing at night.")
    assert (again != "old", archived_ids(memory)) == (True, {"old"})
    assert memory.forget(again) == 2
    assert archived_ids(memory) == set()


def test_a_handle_of_a_user_reaches_what_is_archived_of_this_user(memory: Memory) -> None:
    memory.store.add([item("hers", "她的鲸鱼 whales", scope=Scope(user="ann"))])
    memory.consolidate(archive_before=NOW - 180 * DAY, user=devmem.ANY)
    assert archived_ids(memory) == {"old", "hers"}
    bob, ann = memory.scoped(user="bob"), memory.scoped(user="ann")
    assert (bob.archived_record("hers"), bool(bob.restore("hers")[0])) == (None, False)
    with ann.archived() as old:
        assert [hit.id for hit in old.search("鲸鱼")] == ["hers"]
    assert memory.forget(user="ann") == 1
    assert archived_ids(memory) == {"old"}


def test_an_import_leaves_what_is_archived_there(memory: Memory) -> None:
    """Each night again; a record with other content is stored, and out of the archive."""
    memory.consolidate(archive_before=NOW - 180 * DAY)
    for _ in range(2):
        filler = Filler(memory.store)
        for each in ITEMS:
            filler.put(each)
        filler.flush()
        assert {name: count for name, count in filler.counts.items() if count} == {"duplicate": 6, ARCHIVED: 1}
        assert "1 item is archived and stays so" in filler.notes()[0]
        assert archived_ids(memory) == {"old"}
    filler = Filler(memory.store)
    filler.put(item("old", "The page says that whales sing at noon."))
    filler.flush()
    assert {name: count for name, count in filler.counts.items() if count} == {"stored": 1, UNARCHIVED: 1}
    assert "1 item has other content now than before under the same id: old" in filler.notes()[0]
    assert (archived_ids(memory), "old" in memory) == (set(), True)
    assert [change.operation for change in memory.history("old")][-1:] == ["add"]


def test_a_copy_leaves_archived_items_of_its_target_in_the_archive(memory: Memory, tmp_path: Path) -> None:
    with devmem.open(tmp_path / "copy.db", embedding=None) as target:
        copy_items(memory.store, target.store, lambda _: None)
        consolidate(target.store, archive=ArchiveRule(before=NOW - DAY * 30))
        kept, current = archived_ids(target), {record.id for record in target.scan(user=devmem.ANY)}
        assert "old" in kept
        report = copy_items(memory.store, target.store, lambda _: None)
        assert (report.still_archived, report.unarchived) == (len(kept), 0)
        assert report.complete
        assert not report.identical
        assert (archived_ids(target), {record.id for record in target.scan(user=devmem.ANY)}) == (kept, current)
        memory.store.add([item("old", "The page says that whales sing all day.")])
        report = copy_items(memory.store, target.store, lambda _: None)
        assert (report.still_archived, report.unarchived) == (len(kept) - 1, 1)
        assert target.store.get(["old"])[0].content_summary == "The page says that whales sing all day."
        assert archived_ids(target) == kept - {"old"}


def test_a_copy_archives_what_was_archived(memory: Memory, tmp_path: Path) -> None:
    memory.consolidate(archive_before=NOW - 180 * DAY)
    for _ in range(2):
        with devmem.open(tmp_path / "copy.db", embedding=None) as target:
            report = copy_items(memory.store, target.store, lambda _: None)
            assert (report.complete, report.archived_left, archived_ids(target)) == (True, 0, {"old"})
            assert contents(target) == contents(memory)
    with devmem.open(tmp_path / "copy.json", embedding=None) as target:
        report = copy_items(memory.store, target.store, lambda _: None)
        assert (report.complete, report.archived_left) == (False, 1)


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
    workflow = load_workflow(tmp_path / "team.yaml")
    store = make_store(workflow, "notes")
    with closing(store):
        store.load()
        store.add([item("shown", "Whales sing."), item("found", "Whales swim."), item("twin", "whales swim!")])
        assert store.setup.session_dir is not None
        other = store.setup.session_dir.parent / "other" / FILE_NAME
        other.parent.mkdir(parents=True)
        with closing(RecallLog(other)) as log:
            for shown in ("shown", "twin"):
                hit = Hit(item=item(shown, "x"), score=1.0, store="notes")
                result = MemoryRetrievalResult(formatted_text="head\n1. x\ntail", hits=(hit,))
                caller = Caller(node="n", agent="n")
                log.record(Recall.of(result, at=NOW, stage=Stage.GEN, caller=caller, query="whales"))
        done = consolidate_when_due(store)
        assert done is not None
        assert (done.removed, done.archived, done.recalls_known) == (1, (), True)
        store.add([item("unseen", "Whales jump.")])
        assert consolidate_when_due(store) is None
        done = consolidate(store, archive=ArchiveRule(before=NOW))
        assert [each.id for each in done.archived] == ["unseen"]


def test_a_place_without_an_archive_refuses(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.json", embedding=None) as memory:
        for refused in (memory.archived, lambda: memory.restore("old")):
            with pytest.raises(
                NoArchiveError, match=r"has no archive: its items are in .*notes\.json, which has none\. S"
            ):
                refused()
