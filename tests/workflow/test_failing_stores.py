"""A store that fails is reported, costs no answer and no other store, and loses no write."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from devmem import DevmemError, Hit, MemoryContentSnapshot, MemoryWritePayload, Scope
from devmem.errors import DataFileError
from devmem.messages import AttachmentRef, MessageBlock
from devmem.stores import SearchReport, SnapshotBlock
from devmem.transfer.importing.formats import read_records

from .doubles import ScriptedStore, StrangeError, hit, manager_of, retrieved, said

ERRORS = [DevmemError("closed"), StrangeError(), KeyError("x"), RecursionError(), OSError(28, "no space")]


def broken(operation: str, error: BaseException | None = None, name: str = "broken") -> ScriptedStore:
    store = ScriptedStore(name)
    store.failing[operation] = error or StrangeError()
    return store


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_store_that_cannot_be_searched_is_reported_and_the_others_answer(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    manager = manager_of(broken("search", error), ScriptedStore("fine", [hit("green tea")]))
    result = retrieved(manager, query="tea?")
    assert [item.content_summary for item in result.items] == ["green tea"]
    (failure,) = result.failures
    assert (failure.store, failure.operation, failure.error) == ("broken", "retrieve", error)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert "'broken'" in record.message


def test_a_failure_without_any_hit_is_a_result_with_nothing_to_show() -> None:
    result = retrieved(manager_of(broken("search")), query="tea?")
    assert (result.formatted_text, result.items) == ("", [])
    assert "could not retrieve: the strange store is out of order" in str(result.failures[0])


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "a text",
        [hit("x")],
        SearchReport.of(cast("Any", [object()])),
        SearchReport.of([hit("x", cast("Any", None))]),
        SearchReport.of([Hit(item=cast("Any", {}), score=1)]),
    ],
)
def test_a_store_that_answers_nonsense_has_failed(wrong: Any) -> None:
    store = ScriptedStore("broken")
    store.answer = lambda query: wrong  # type: ignore[method-assign]
    result = retrieved(manager_of(store, ScriptedStore("fine", [hit("green tea")])), query="tea?")
    assert len(result.items) == 1
    assert [failure.store for failure in result.failures] == ["broken"]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_store_that_cannot_be_written_is_reported_and_the_others_are_written(error: Exception) -> None:
    store, fine = broken("update", error), ScriptedStore("fine")
    manager = manager_of(store, fine)
    result = manager.update(said("a", "b"))
    assert [write.store for write in result.writes] == ["fine"]
    assert [(failure.store, failure.operation, failure.error) for failure in result.failures] == [
        ("broken", "update", error)
    ]
    assert (len(fine.payloads), manager.unsaved) == (1, 1)


def test_what_was_written_and_not_saved_is_reported_as_both_and_not_written_again() -> None:
    store = broken("save")
    manager = manager_of(store)
    result = manager.update(said("a", "b"))
    assert [write.store for write in result.writes] == ["broken"]
    assert [(failure.store, failure.operation) for failure in result.failures] == [("broken", "save")]
    assert manager.unsaved == 0
    store.failing.clear()
    manager.update(said("c", "d"))
    assert [payload.inputs_text for payload in store.payloads] == ["a", "c"]


def test_failed_writes_are_tried_again_before_the_next_in_order_and_once() -> None:
    store = broken("update")
    manager = manager_of(store)
    for number in range(3):
        manager.update(said(f"input {number}", "x"))
    assert manager.unsaved == 3
    store.failing.clear()
    assert manager.update(said("input 3", "x")).failures == ()
    assert manager.unsaved == 0
    manager.update(said("input 4", "x"))
    assert manager.close() == []
    assert [payload.inputs_text for payload in store.payloads] == [f"input {number}" for number in range(5)]


def test_a_store_that_fails_again_halfway_keeps_the_order() -> None:
    store = broken("update")
    manager = manager_of(store)
    for number in range(3):
        manager.update(said(f"input {number}", "x"))
    store.failing.clear()

    def fail_after_two() -> None:
        if len(store.payloads) == 2:
            store.failing["update"] = StrangeError()

    store.before_update = fail_after_two
    manager.update(said("input 3", "x"))
    assert manager.unsaved == 2
    store.before_update = store.failing.clear
    assert manager.close() == []
    assert [payload.inputs_text for payload in store.payloads] == [f"input {number}" for number in range(4)]


def test_what_a_store_refuses_for_what_it_is_holds_nothing_back() -> None:
    """It is tried again with every write, and put aside at the end."""
    store = ScriptedStore("picky")
    manager = manager_of(store)
    refused = ValueError("no such words here")
    store.failing["update"] = refused
    assert [failure.error for failure in manager.update(said("bad", "x")).failures] == [refused]

    def refuse_first() -> None:
        if store.tried % 2 == 0:
            store.failing["update"] = refused
        else:
            store.failing.clear()

    store.tried = 0
    store.before_update = refuse_first
    for number in range(3):
        assert manager.update(said(f"good {number}", "x")).failures == ()
    assert [payload.inputs_text for payload in store.payloads] == [f"good {number}" for number in range(3)]
    assert manager.unsaved == 1


def test_an_interrupted_write_is_kept_too(tmp_path: Path) -> None:
    store = broken("update", KeyboardInterrupt())
    manager = manager_of(store, rescue_dir=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        manager.update(said("a", "b"))
    store.failing.clear()
    assert manager.close() == []
    assert [payload.inputs_text for payload in store.payloads] == ["a"]


RICH = said(
    "=== INPUT FROM user (user) ===\n\nWann?\u2028\x01",
    "五月五日 🎉",
    agent_role="clerk",
    scope=Scope(user="ann", session="s"),
    source="answer",
    event_time=1.5,
    trust=0.5,
    metadata={"n": 1, "list": [None, True, {"deep": 0.5}]},
    input_snapshot=MemoryContentSnapshot(
        text="Wann?",
        blocks=(
            SnapshotBlock(
                role="user",
                block=MessageBlock(
                    type="image",
                    attachment=AttachmentRef(attachment_id="a1", data_uri="data:image/png;base64,AAAA"),
                    data={"own": [1]},
                ),
            ),
        ),
    ),
)
PLAIN = said("half of an emoji", "x")


def test_what_a_store_did_not_take_waits_for_the_next_manager(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first manager is not even closed, as in a process that is killed."""
    manager = manager_of(broken("update", name="my notes/1"), broken("update", name="other"), rescue_dir=tmp_path / "r")
    for payload in (RICH, PLAIN):
        manager.update(payload)
    assert manager.unsaved == 4
    assert list(read_records(tmp_path / "r" / "state.db")) == [RICH, RICH, PLAIN, PLAIN]
    (file,) = manager.close()
    assert file == tmp_path / "r" / "state.db"
    assert str(file) in caplog.text
    store = ScriptedStore("my notes/1")
    later = manager_of(store, rescue_dir=tmp_path / "r")
    assert later.unsaved == 2
    assert later.update(said("later", "x")).failures == ()
    assert store.payloads[:2] == [RICH, PLAIN]
    assert store.payloads[2].inputs_text == "later"
    assert later.close() == []
    assert manager_of(ScriptedStore("other"), rescue_dir=tmp_path / "r").close() == []


def test_a_value_that_json_does_not_know_does_not_cost_the_other_writes(tmp_path: Path) -> None:
    manager = manager_of(broken("update"), rescue_dir=tmp_path)
    manager.update(said("first", "x", metadata=cast("Any", {"when": StrangeError(), "n": 1})))
    manager.update(said("second", "x"))
    (file,) = manager.close()
    first, second = read_records(file)
    assert isinstance(first, MemoryWritePayload)
    assert isinstance(second, MemoryWritePayload)
    assert first.metadata == {"when": "the strange store is out of order", "n": 1}
    assert second.inputs_text == "second"


def test_an_unwritable_folder_is_replaced_by_the_one_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("no folder")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    manager = manager_of(broken("update"), rescue_dir=in_the_way / "r")
    manager.update(RICH)
    (file,) = manager.close()
    assert file.parent == tmp_path
    assert list(read_records(file)) == [RICH]
    assert str(in_the_way) in caplog.text
    assert "devmem import" in caplog.text


def test_what_cannot_be_put_anywhere_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("no folder")
    monkeypatch.setattr("tempfile.tempdir", str(in_the_way))
    manager = manager_of(broken("update"))
    manager.update(said("remember the milk", "b"))
    assert manager.close() == []
    (record,) = (record for record in caplog.records if record.levelno == logging.CRITICAL)
    assert "remember the milk" in record.message


def test_sqlite_file_that_is_no_outbox_is_not_imported(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE t (x)")
    with pytest.raises(DataFileError, match="not an outbox"):
        list(read_records(tmp_path / "other.db"))
