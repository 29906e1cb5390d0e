"""Commands on a recorded conversation: as a prompt, summarized, trimmed, and restored in agents' stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
