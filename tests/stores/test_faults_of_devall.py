"""Faults of DevAll (ChatDev 2) that must not occur here; the numbers are those of our list.

Others are tests of every collection and store type: lost writes of two processes, damaged files, mixed models, vectors
of zeros, attachments that are written again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from devmem import MemoryBase, MemoryContentSnapshot, MemoryWritePayload
from devmem.messages import AttachmentRef, MessageBlock
from devmem.stores import SnapshotBlock, WriteStatus
from devmem_stores.blackboard import BlackboardMemory
from devmem_stores.simple import SimpleMemory
from tests.conftest import MakeStore

Exchange = Callable[..., MemoryWritePayload]
KINDS = pytest.mark.parametrize("kind", [SimpleMemory, BlackboardMemory])


@KINDS
def test_d1_an_auto_path_is_a_file_of_the_session(
    make_store: MakeStore, exchange: Exchange, tmp_path: Path, kind: type[MemoryBase]
) -> None:
    """There the folder was missing: the answer was lost and the run aborted."""
    session = tmp_path / "WareHouse" / "session_1"
    store = make_store(kind, memory_path="auto", session=session)
    store.update(exchange("Where is the key?", "Under the flowerpot."))
    store.close()
    (file,) = session.glob("*.db")
    assert "notes" in file.name
    assert make_store(kind, memory_path="auto", session=session).count() == 1


def test_d7_the_answer_is_stored_when_the_input_is_long(make_store: MakeStore, exchange: Exchange) -> None:
    store = make_store(SimpleMemory)
    store.update(exchange("We talked about the weather at length. " * 100, "The spare key is under the flowerpot."))
    (item,) = store.retrieve("", "spare key flowerpot", 1)
    assert "The spare key is under the flowerpot." in item.content_summary
    assert len(item.content_summary) <= 500


def test_d7_equal_exchanges_are_all_kept_and_shown_once(make_store: MakeStore, exchange: Exchange) -> None:
    store = make_store(SimpleMemory)
    outcomes = [store.update(exchange("status?", "All pumps run.")) for _ in range(3)]
    assert [outcome.status for outcome in outcomes] == [WriteStatus.STORED] * 3
    assert store.count() == 3
    assert len(store.retrieve("", "Do the pumps run?", 5)) == 1


def test_two_pictures_with_the_same_words_are_two_items(make_store: MakeStore) -> None:
    """An answer about one image is not given for another."""
    store = make_store(SimpleMemory)
    for content in ("AAAA", "BBBB"):
        ref = AttachmentRef(attachment_id=content, data_uri=f"data:image/png;base64,{content}")
        block = SnapshotBlock(role="user", block=MessageBlock(type="image", attachment=ref))
        payload = MemoryWritePayload(
            inputs_text="What is in this picture?",
            input_snapshot=MemoryContentSnapshot(text="What is in this picture?", blocks=(block,)),
            output_snapshot=MemoryContentSnapshot(text="A cat on a mat."),
        )
        assert store.update(payload).status is WriteStatus.STORED
        shown = json.dumps(store.recent(1)[0].metadata["attachments"])
        assert f'"attachment_id": "{content}"' in shown, "the question's attachments are listed too"


@pytest.mark.parametrize(
    "fact",
    [
        "You are the best engineer we have, so note that the deadline is May 5th, not earlier",
        "你是最好的工程师，截止日期是五月五日",
    ],
)
def test_d8_a_fact_is_not_taken_for_a_phrase(make_store: MakeStore, exchange: Exchange, fact: str) -> None:
    """There everything from `You are` to the next comma was deleted, wherever it stood."""
    store = make_store(SimpleMemory)
    store.update(exchange(fact, "Noted, thank you for telling me."))
    (item,) = store.recent(1)
    assert fact in item.content_summary


def test_d30_files_are_utf8_whatever_the_machine_says(tmp_path: Path) -> None:
    """There a German or Chinese text crashed on Windows."""
    code = (
        "import sys; from devmem.storage import JsonCollection; from devmem.model.items import MemoryItem\n"
        "store = JsonCollection(sys.argv[1]); store.add([MemoryItem(content_summary='Zürich 会议')])\n"
        "assert JsonCollection(sys.argv[1]).count() == 1"
    )
    path = tmp_path / "notes.json"
    subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", code, str(path)],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "0"},
    )
    assert "Zürich 会议" in path.read_text(encoding="utf-8")
