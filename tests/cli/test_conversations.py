"""Commands on a recorded conversation: its traces, as a prompt, summarized, trimmed, and restored in agents' stores."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from devmem import load_workflow, open_stores, record_agent, record_tool
from devmem.recording import InteractionRecorder, pending_file
from devmem.recording.forwarder import records_in
from devmem_stores.conversation import ConversationMemory

from .conftest import Devmem

YAML = """
memory:
  - {name: global, type: conversation, config: {memory_path: global.db, summary: {keep: 1, words: 20}}}
  - {name: writers, type: simple, config: {memory_path: writers.db}}
conversation:
  store: global
  copies: [{into: writers, agents: [writer]}]
nodes:
  - {id: writer, type: agent}
  - {id: reviewer, type: agent}
edges: [{from: writer, to: reviewer}]
"""
TEXT = "The harbour is closed on Monday, since the crane is repaired and nobody may enter the pier before noon."


@pytest.fixture
def team(tmp_path: Path, devmem: Devmem) -> Path:
    """A workflow that was run once."""
    file = tmp_path / "team.yaml"
    file.write_text(YAML, encoding="utf-8")
    done = devmem("run", file, "--input", TEXT, "--session", "s1", "--user", "ann")
    assert "recorded as trace " in done.stderr
    return file


def test_a_run_is_shown_as_trace_and_log(team: Path, devmem: Devmem) -> None:
    run = json.loads(devmem("run", team, "--input", TEXT, "--json").stdout)
    tree = devmem("log", team, "global", "--trace", run["trace"]).stdout.splitlines()
    assert tree[0].startswith("user -> agent writer")
    assert any(line.startswith("writer -> agent reviewer") for line in tree)
    assert len(devmem("log", team, "global", "s1").stdout.splitlines()) == 4


def test_context_words_the_conversation_for_its_reader(team: Path, devmem: Devmem) -> None:
    shown = devmem("context", team, "global", "--agent", "writer", "--user", "ann").stdout
    assert shown.startswith(f"User ann asked you: {TEXT}")
    assert "You asked agent reviewer: " in shown
    chinese = devmem("context", team, "global", "--agent", "writer", "--user", "ann", "--language", "zh").stdout
    assert chinese.startswith("用户ann问你")
    short = devmem("context", team, "global", "--user", "ann", "--max-tokens", "20").stdout
    assert len(short) < len(TEXT)
    nobody = devmem("context", team, "global", "--agent", "writer")
    assert (nobody.stdout, "nothing is recorded" in nobody.stderr) == ("", True)
    assert "left out: 4 items" in nobody.stderr


def test_other_stores_word_no_conversation(team: Path, devmem: Devmem) -> None:
    refused = devmem("context", team, "writers", code=2)
    assert "only a store of type `conversation` does" in refused.stderr


def test_older_items_are_summarized_or_forgotten(team: Path, devmem: Devmem) -> None:
    assert "summarized" in devmem("consolidate", team, "global", "--summarize").stdout
    done = json.loads(devmem("consolidate", team, "global", "--summarize", "--json").stdout)
    assert (done["summarized"], done["items"]) == (0, 7)
    kept = [item["id"] for item in json.loads(devmem("list", team, "global", "-n", "5", "--json").stdout)]
    assert "add --yes" in devmem("forget", team, "global", "--all-users", "--keep", "5", code=2).stderr
    devmem("forget", team, "global", "--all-users", "--keep", "5", "--yes")
    left = [item["id"] for item in json.loads(devmem("list", team, "global", "--json").stdout)]
    assert set(left) <= set(kept)
    assert left


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keep", "1", "--matching", "tea"], "--keep is by age"),
        (["--keep", "1", "--drop"], "--drop and --lift cannot be combined"),
        (["--drop", "--yes"], "is in no database"),
        (["--yes"], "nothing is selected"),
    ],
)
def test_what_forget_refuses(team: Path, devmem: Devmem, options: list[str], message: str) -> None:
    assert message in devmem("forget", team, "writers", *options, code=2).stderr


def test_a_lost_store_is_restored_from_the_global_memory(team: Path, devmem: Devmem) -> None:
    assert devmem("copy", team).stdout == "writers: 4 records of writer, 0 added\n"
    devmem("forget", team, "writers", "--all-users", "--yes")
    (done,) = json.loads(devmem("copy", team, "--into", "writers", "--json").stdout)
    assert done == {"store": "writers", "records": 4, "added": 4}
    assert "copies into 'global'" in devmem("copy", team, "--into", "global", code=2).stderr


def test_forgetting_an_agent_takes_what_it_shared(team: Path, devmem: Devmem) -> None:
    gone = devmem("forget", team, "global", "--agent", "reviewer", "--user", "ann", "--yes").stdout
    assert gone.startswith("global: 2 items forgotten; 2 items now\n  reached: ")


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
