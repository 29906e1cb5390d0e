"""`devmem log --trace` and `devmem log`."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from devmem import load_workflow, open_stores, record_agent, record_tool
from devmem.recording import InteractionRecorder, pending_file
from devmem.recording.forwarder import records_in
from devmem_stores.conversation import ConversationMemory

from .conftest import Devmem

WORKFLOW = """\
memory:
  - {name: global, type: conversation, config: {memory_path: global.db}}
  - {name: board, type: blackboard}
"""


def record(folder: Path) -> Path:
    file = folder / "team.yaml"
    file.write_text(WORKFLOW, encoding="utf-8")
    with open_stores(load_workflow(file)) as stores:
        memory = stores["global"]
        assert isinstance(memory, ConversationMemory)
        with (
            InteractionRecorder(memory, folder / "journal") as recorder,
            recorder.trace(conversation="c1", trace="t1"),
            record_agent("helper", "sum\nup"),
            record_tool("calculator", "1+1") as call,
        ):
            call.output(2)
    return file


def test_a_trace_is_a_tree_and_a_conversation_a_timeline(devmem: Devmem, tmp_path: Path) -> None:
    file = record(tmp_path)
    tree = devmem("log", file, "global", "--trace", "t1").stdout.splitlines()
    assert tree[0].startswith("user -> agent helper (")
    assert tree[0].endswith(": sum up")
    assert tree[1].startswith("  helper -> tool calculator (")
    assert tree[2:] == ["    = 2", "  = null"]
    listed = [line.split() for line in devmem("log", file, "global").stdout.splitlines()]
    assert listed == [["kind", "id", "records"], ["conversation", "c1", "4"], ["trace", "t1", "4"]]
    timeline = devmem("log", file, "global", "c1").stdout.splitlines()
    assert [line.split("  ", 1)[1] for line in timeline] == [
        "user -> helper  input: sum up",
        "helper -> calculator  input: 1+1",
        "calculator -> helper  output: 2",
        "helper -> user  output: null",
    ]
    (first, *_) = json.loads(devmem("log", file, "global", "c1", "--json").stdout)
    assert (first["source"], first["content"], first["trace_id"]) == ("user", "sum\nup", "t1")


def test_what_is_not_there_and_a_store_that_records_nothing(devmem: Devmem, tmp_path: Path) -> None:
    file = record(tmp_path)
    assert "nothing is recorded of trace 'other'" in devmem("log", file, "global", "--trace", "other", code=2).stderr
    assert "keeps no interactions" in devmem("log", file, "board", "c1", code=2).stderr

    assert "add --format" in devmem("log", file, "global", "--user", "ann", code=2).stderr
    assert "--trace shows one trace" in devmem("log", file, "global", "c1", "--trace", "t1", code=2).stderr


def test_what_waits_for_a_store_is_shown_with_the_stores(devmem: Devmem, tmp_path: Path) -> None:
    file = record(tmp_path)
    assert "wait" not in devmem("stores", file).stderr

    class Down:
        def record(self, interactions: object) -> None:
            raise RuntimeError("down")

    waiting = pending_file(tmp_path / "global.db")
    recorder = InteractionRecorder(Down(), waiting)
    with recorder.trace(conversation="c2"), record_tool("t", "x"):
        pass
    recorder.close(timeout=0.1)
    with closing(records_in(waiting)) as records:
        records.refuse(next(records.entries()).key, "not this one")
    shown = " ".join(devmem("stores", file).stderr.split())
    assert "1 record that wait; the next recorder" in shown
    assert "1 record that the store refused" in shown
    store, _ = json.loads(devmem("stores", file, "--json").stdout)["stores"]
    assert store["pending"] == {"file": str(waiting), "waiting": 1, "refused": 1}


def test_long_contents_are_cut_unless_all_of_them_is_asked_for(devmem: Devmem, tmp_path: Path) -> None:
    file = record(tmp_path)
    with open_stores(load_workflow(file)) as stores:
        memory = stores["global"]
        assert isinstance(memory, ConversationMemory)
        with (
            InteractionRecorder(memory, tmp_path / "journal") as recorder,
            recorder.trace(conversation="c2", trace="t2"),
            record_tool("long", "x" * 1000),
        ):
            pass
    for name in (["--trace", "t2"], ["c2"]):
        assert max(map(len, devmem("log", file, "global", *name).stdout.splitlines())) < 300
        assert "x" * 1000 in "".join(devmem("log", file, "global", *name, "--full").stdout.split())
