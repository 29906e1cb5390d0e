"""Deletion that holds: what was erased with a tombstone stays out, by whatever way it would come back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import devmem
from devmem.errors import NoTombstonesError, NotStoredError, ScopeError
from tests.command_line import run_devmem

SECRET = "Her door code is 4711-Zeta."
OTHER = "The launch is on May 5th."


def test_a_text_is_refused_with_the_reason(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add(SECRET, user="ann")
        receipt = memory.forget(user="ann", tombstone=True, verify=True)
        assert (receipt.items, receipt.tombstones) == (1, 1)
        with pytest.raises(NotStoredError, match="a tombstone keeps it out"):
            memory.add("  her door-code is 4711 ZETA", user="ann")
        with pytest.raises(NotStoredError):
            memory.add([OTHER, f"{OTHER} {SECRET}"], user="ann")
        assert [record.text for record in memory.search("door code launch", user="ann")] == [OTHER]
        memory.add(SECRET, user="bob")
    assert b"4711" not in (tmp_path / "notes.db.tombstones").read_bytes()


def test_earlier_versions_stay_out_too(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add(SECRET, id="code")
        memory.update("code", "Her door code is 1234-Beta now.")
        assert memory.forget("code", tombstone=True).items == 1
        for text in (SECRET, "Her door code is 1234-Beta now."):
            with pytest.raises(NotStoredError):
                memory.add(text)
        memory.add("Her door code is a secret.", id="code")
        with pytest.raises(NotStoredError):
            memory.update("code", SECRET)


def test_of_an_item_that_stays_only_the_erased_versions_are_kept_out(tmp_path: Path) -> None:
    """Opening the file again erases nothing else either."""
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        for text in (SECRET, "Her door code is 1234-Beta now.", "Her door code is 9 now."):
            memory.add(text, key="code")
        assert memory.forget(matching="4711", tombstone=True, verify=True).tombstones == 1
        memory.add("Her door code is 9 now.", id="again")
        with pytest.raises(NotStoredError):
            memory.add(SECRET)
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        assert {record.text for record in memory.list(5)} == {"Her door code is 9 now."}


def test_without_tombstones_it_may_come_back(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add(SECRET)
        memory.forget(user=devmem.ANY, verify=True)
        memory.add(SECRET)
        assert memory.tombstones() == []
    assert not (tmp_path / "notes.db.tombstones").exists()


def test_what_was_derived_does_not_keep_out_the_sentences_of_others(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add(SECRET, id="code")
        (item,) = memory.store.get(["code"])
        parents = devmem.stores.Provenance(parents=("code",))
        summary = devmem.MemoryItem(content_summary=f"{SECRET} {OTHER}", id="told", provenance=parents)
        memory.store.add([summary])
        assert memory.forget("code", tombstone=True, verify=True).derived == ("told",)
        memory.add(OTHER)
        with pytest.raises(NotStoredError):
            memory.add(item.content_summary)


def test_a_handle_sees_its_user_s(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        for user in ("ann", "bob"):
            memory.add(SECRET, user=user)
            memory.forget(user=user, tombstone=True, verify=True)
        ann = memory.scoped(user="ann")
        (tombstone,) = ann.tombstones()
        assert (tombstone.texts, tombstone.sentences, len(memory.tombstones())) == (1, 1, 2)
        with pytest.raises(ValueError, match="everything=True"):
            ann.remove_tombstones()
        with pytest.raises(ScopeError, match="kept by user"):
            memory.scoped(user="ann", agent="critic").tombstones()
        assert ann.remove_tombstones(everything=True) == 1
        ann.add(SECRET)
        assert asyncio.run(memory.atombstones()) == memory.scoped(user="bob").tombstones()
        assert memory.remove_tombstones(memory.tombstones()[0].id) == 1
    assert not (tmp_path / "notes.db.tombstones").exists()


def test_a_copy_leaves_it_out(tmp_path: Path) -> None:
    with (
        devmem.open(tmp_path / "notes.db", embedding=None) as memory,
        devmem.open(tmp_path / "all.db", embedding=None) as old,
    ):
        for each in (memory, old):
            each.add([SECRET, OTHER])
        memory.forget(matching="door code", tombstone=True, verify=True)
    run_devmem("copy", tmp_path / "all.db", tmp_path / "notes.db")
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        assert [record.text for record in memory] == [OTHER]


def test_a_backup_does_not_bring_it_back(tmp_path: Path) -> None:
    """Neither restored over the file, nor put in its place by hand; its earlier versions are erased too."""
    file, saved = tmp_path / "notes.db", tmp_path / "saved.db"
    with devmem.open(file, embedding=None) as memory:
        memory.add(OTHER)
        memory.add(SECRET, id="code")
        memory.add(SECRET, id="again", user="ann")
        memory.update("again", "Her door code was changed.")
        run_devmem("backup", file, saved)
        memory.forget(user=devmem.ANY, matching="door code", tombstone=True, verify=True)
    run_devmem("backup", file, saved, "--restore", "--force")
    with devmem.open(file, embedding=None) as memory:
        assert [record.text for record in memory.list(user=devmem.ANY)] == [OTHER]
        assert memory.history("again") == []
    file.unlink()
    saved.rename(file)
    with devmem.open(file, embedding=None) as memory:
        assert [record.text for record in memory.list(user=devmem.ANY)] == [OTHER]
        assert memory.history("again") == []
        assert len(memory.tombstones()) == 1
    assert SECRET.encode() not in file.read_bytes()


def test_a_backup_that_was_made_later_keeps_its_own(tmp_path: Path) -> None:
    file, saved = tmp_path / "notes.db", tmp_path / "saved.db"
    with devmem.open(file, embedding=None) as memory:
        memory.add(SECRET)
        memory.forget(user=devmem.ANY, tombstone=True, verify=True)
        run_devmem("backup", file, saved)
    with devmem.open(saved, embedding=None) as memory:
        with pytest.raises(NotStoredError):
            memory.add(SECRET)
        memory.remove_tombstones(everything=True)
        memory.add(SECRET)


def test_an_earlier_version_in_a_backup_is_erased_alone(tmp_path: Path) -> None:
    """The current version of the same item says something else and stays."""
    file, saved = tmp_path / "notes.db", tmp_path / "saved.db"
    with devmem.open(file, embedding=None) as memory:
        memory.add(SECRET, id="code")
        memory.update("code", OTHER)
        run_devmem("backup", file, saved)
        memory.add(SECRET, id="other")
        memory.forget("other", tombstone=True, verify=True)
    file.unlink()
    saved.rename(file)
    with devmem.open(file, embedding=None) as memory:
        assert [version.item.text for version in memory.history("code")] == [OTHER]


def test_a_store_without_tombstones_says_so_first(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text("memory: [{name: old, type: simple, config: {memory_path: old.json}}]\n")
    with devmem.open(tmp_path / "team.yaml#old") as memory:
        memory.add(SECRET)
        with pytest.raises(NoTombstonesError, match="keeps no tombstones"):
            memory.forget(user=devmem.ANY, tombstone=True, verify=True)
        assert len(memory) == 1
    receipt = devmem.forget(tmp_path / "team.yaml", user=devmem.ANY, tombstone=True)
    assert receipt.items == 1
    assert any("may be stored again" in left.reason for left in receipt.left)


def test_every_store_of_a_workflow_keeps_it_out(tmp_path: Path) -> None:
    """By the call for all of them, and by `tombstones: true` for one."""
    (tmp_path / "team.yaml").write_text(
        "memory:\n"
        "  - {name: one, type: simple, config: {memory_path: one.db}}\n"
        "  - {name: two, type: long_term, config: {memory_path: two.db}}\n"
        "  - {name: always, type: simple, config: {memory_path: always.db, tombstones: true}}\n"
    )
    names = ("one", "two", "always")
    for name in names:
        with devmem.open(tmp_path / f"team.yaml#{name}") as memory:
            memory.add(SECRET, id="code", user="ann")
    receipt = devmem.forget(tmp_path / "team.yaml", "code", tombstone=True)
    assert [(part.store, part.tombstones) for part in receipt.stores] == [(name, 1) for name in names]
    for name in names:
        with devmem.open(tmp_path / f"team.yaml#{name}") as memory, pytest.raises(NotStoredError):
            memory.add(SECRET, user="ann")
    with devmem.open(tmp_path / "team.yaml#always") as memory:
        memory.add(OTHER, id="launch")
        memory.forget("launch")
        with pytest.raises(NotStoredError):
            memory.add(OTHER)
