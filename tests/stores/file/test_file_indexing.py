"""Only what changed is touched, and only what is new is embedded."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing

import pytest

from devmem import MemoryItem, MemoryWritePayload
from devmem.stores import MemoryQuery, WriteStatus
from devmem.testing import FailingEmbedder, HashEmbedder

from .conftest import GUIDE, Folder, found, names, texts


def test_a_hit_cites_its_lines(folder: Folder) -> None:
    store = folder.load()
    hit = store.search(MemoryQuery(text="where does the key hang?", limit=1))[0]
    assert hit.item.metadata["citation"] == "docs/guide.md:5-7"
    assert hit.item.metadata["heading"] == ["Guide", "Places"]
    assert hit.item.content_summary.startswith("[docs/guide.md:5-7] Guide\n## Places")
    assert hit.item.provenance.name == "docs/guide.md"
    assert store.get([hit.item.id])[0].content_summary.startswith("Guide\n## Places")
    assert found(store, "guide.md")[0].startswith("docs/guide.md"), "the name is found by its words"


def test_without_a_model_words_are_searched_and_a_model_that_comes_later_is_used(folder: Folder) -> None:
    store = folder.load(embedding=None)
    assert found(store, "filter") == ["docs/guide.md:9-16"]
    assert folder.embedded == []
    store = folder.reload(store)
    assert store.info().waiting == 0
    assert len(folder.embedded) == store.count()


def test_a_reload_reads_and_embeds_nothing(folder: Folder) -> None:
    for name in ("guide.md", "b.txt"):
        os.utime(folder.write(name, GUIDE), (1, 1))
    store = folder.load()
    assert folder.embedded
    store = folder.reload(store)
    assert store.report is not None
    assert (store.report.files_read, store.report.embedded, store.report.unchanged) == (0, 0, 2)
    assert folder.embedded == []


def test_only_the_changed_chunk_is_embedded_and_lines_follow(folder: Folder) -> None:
    store = folder.load()
    count = store.count()
    _ = folder.embedded
    folder.write("guide.md", GUIDE.replace("How to use the boiler.", "How to use it.\n\nAnd to repair it."))
    report = store.index()
    assert folder.embedded == ["# Guide\n\nHow to use it.\n\nAnd to repair it."]
    assert (report.embedded, report.changed, report.removed) == (1, ("docs/guide.md",), 1)
    assert store.count() == count
    assert found(store, "where does the key hang?")[0] == "docs/guide.md:7-9"


def test_a_change_within_the_clock_s_grain_is_seen(folder: Folder) -> None:
    file = folder.write("a.txt", "old words")
    # Later than it is read, however long that takes.
    written = (time.time_ns() + 3_600 * 10**9,) * 2
    os.utime(file, ns=written)
    store = folder.load()
    file.write_text("new words")
    os.utime(file, ns=written)
    report = store.index()
    assert report.changed == ("docs/a.txt",)


def test_deleted_files_leave_nothing(folder: Folder) -> None:
    file = folder.write("a.txt", "the pump")
    store = folder.load()
    file.unlink()
    report = store.index()
    assert report.deleted == ("docs/a.txt",)
    assert names(store) == ["docs/guide.md"]


def test_a_rename_costs_no_embedding(folder: Folder) -> None:
    store = folder.load()
    _ = folder.embedded
    (folder.docs / "guide.md").rename(folder.docs / "handbook.md")
    assert store.plan().renamed == (("docs/guide.md", "docs/handbook.md"),)
    report = store.index()
    assert report.renamed == (("docs/guide.md", "docs/handbook.md"),)
    assert (report.embedded, report.deleted, folder.embedded) == (0, (), [])
    assert found(store, "where does the key hang?")[0] == "docs/handbook.md:5-7"
    assert store.info().waiting == 0


def test_a_copy_and_repeated_text_cost_no_second_embedding_of_the_file(folder: Folder) -> None:
    store = folder.load()
    _ = folder.embedded
    folder.write("copy.md", GUIDE)
    assert store.index().embedded == 0
    folder.write("twice.txt", ("the same line of words. " * 30 + "\n") * 2)
    store.index()
    assert len(names(store)) == 3


def test_the_plan_writes_nothing(folder: Folder) -> None:
    store = folder.make()
    assert store.plan().new == ("docs/guide.md",)
    assert [file.name for file in folder.base.iterdir()] == ["docs"]
    store.load()
    folder.write("guide.md", "other")
    folder.write("b.txt", "x")
    plan = store.plan()
    assert (plan.changed, plan.new, plan.deleted) == (("docs/guide.md",), ("docs/b.txt",), ())
    assert not plan.is_empty()
    store.index()
    assert store.plan().is_empty()
    assert store.plan(rebuild=True).changed


def test_another_model_embeds_everything_anew(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    store = folder.load()
    count = store.count()
    store.close()
    folder.embedder = HashEmbedder(48)
    store = folder.load()
    assert "the embedding model changed" in caplog.text
    assert store.info().embedding == "testing:hash:48"
    assert (store.info().waiting, store.count()) == (0, count)
    assert store.report is not None
    assert store.report.files_read <= 1
    assert found(store, "where does the key hang?")[0] == "docs/guide.md:5-7"


def test_a_new_model_that_does_not_answer_leaves_the_old_index(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.load().close()
    old = folder.embedder
    folder.embedder = failing = FailingEmbedder(48)
    failing.fail()
    store = folder.load()
    assert "searched by words alone" in caplog.text
    assert found(store, "where does the key hang?")[0] == "docs/guide.md:5-7"
    store.close()
    folder.embedder = old
    store = folder.load()
    assert store.info().waiting == 0
    assert store.report is not None
    assert store.report.embedded == 0
    store.close()
    folder.embedder = failing
    failing.recover()
    assert folder.load().info().embedding == failing.identity.name


def test_a_provider_that_is_down_costs_nothing(folder: Folder) -> None:
    folder.embedder = failing = FailingEmbedder(32)
    failing.fail()
    store = folder.load()
    assert store.info().waiting == store.count()
    assert found(store, "filter") == ["docs/guide.md:9-16"]
    store.close()
    failing.recover()
    assert folder.load().info().waiting == 0


def test_nothing_is_written_by_agents(folder: Folder) -> None:
    store = folder.load()
    before = {file: file.stat().st_mtime_ns for file in folder.base.glob("index.db*")}
    outcome = store.update(MemoryWritePayload(inputs_text="remember this, please, for ever"))
    assert (outcome.status, outcome.reason.startswith("read-only")) == (WriteStatus.SKIPPED, True)
    assert store.add([MemoryItem(content_summary="x")])[0].status is WriteStatus.SKIPPED
    store.save()
    assert {file: file.stat().st_mtime_ns for file in folder.base.glob("index.db*")} == before


def change_records(folder: Folder, statement: str) -> None:
    with closing(sqlite3.connect(folder.base / "index.db")) as connection, connection:
        assert connection.execute(statement).rowcount > 0


@pytest.mark.parametrize("lost", ["index", "records"])
def test_what_is_lost_is_made_again(folder: Folder, lost: str) -> None:
    store = folder.load()
    expected = texts(store)
    store.close()
    _ = folder.embedded
    if lost == "records":
        change_records(folder, "DELETE FROM states")
    else:
        for file in folder.base.glob("index.db*"):
            file.unlink()
    store = folder.load()
    assert texts(store) == expected
    assert bool(folder.embedded) == (lost == "index")


def test_two_stores_on_one_index_agree(folder: Folder) -> None:
    first, second = folder.load(), folder.load()
    folder.write("b.txt", "the pump")
    assert first.index().new == ("docs/b.txt",)
    report = second.index()
    assert (report.new, report.embedded) == ((), 0)
    assert found(second, "pump")[0] == "docs/b.txt:1"
