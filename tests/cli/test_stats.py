"""`devmem stores` and `devmem plan`: counts, sizes, hit rates, slow searches, and what leaves the machine."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import devmem as library
from devmem.memory.statistics import statistics_of

from .conftest import Devmem

TEAM = """\
memory:
  - {name: notes, type: simple, config: {memory_path: notes.db}}
record_recalls: true
nodes:
  - id: helper
    type: agent
    config: {memories: [{name: notes, retrieve_stage: [gen], write: false}]}
"""


def filled(folder: Path) -> Path:
    file = folder / "team.yaml"
    file.write_text(TEAM)
    with library.open(f"{file}#notes") as memory:
        memory.add(["The venue is booked.", "The launch is on June 2nd."], agent="scribe")
        memory.add("The band is late.", user="ann")
        memory.add("The hall is free.", user="ann", time=f"{date.today() - timedelta(days=3)}T12:00")
    return file


def test_the_items_of_a_store_by_agent_user_source_and_day(devmem: Devmem, tmp_path: Path) -> None:
    file = filled(tmp_path)
    (store,) = json.loads(devmem("stores", file, "--days", "4", "--json").stdout)["stores"]
    assert (store["store"], store["type"], store["items"], store["waiting"]) == ("notes", "simple", 4, 0)
    assert store["size_bytes"] > 0
    assert store["agents"] == {"": 2, "scribe": 2}
    assert store["users"] == {"": 2, "ann": 2}
    assert store["source_kinds"] == {"node": 2, "user": 2}
    assert list(store["days"].values()) == [1, 0, 0, 3]
    assert list(store["days"])[-1] == date.today().isoformat()
    shown = devmem("stores", tmp_path / "notes.db").stdout
    assert "notes: items by agent, user, source and day" in shown.replace(str(tmp_path / "notes.db"), "notes")
    assert "user" in shown
    assert "(none)" in shown


def test_how_often_agents_find_something_and_which_searches_are_slow(devmem: Devmem, tmp_path: Path) -> None:
    file = filled(tmp_path)
    devmem("run", file, "--input", "When is the launch?")
    recalls = json.loads(devmem("stores", file, "--json").stdout)["recalls"]
    assert (recalls["all"]["recalls"], recalls["all"]["answered"]) == (1, 1)
    assert recalls["agents"][0]["agent"] == "helper"
    (store,) = recalls["stores"]
    assert (store["store"], store["found_in"], store["shown_in"]) == ("notes", 1, 1)
    (slow,) = recalls["slowest"]
    assert slow["query"] == "When is the launch?"
    assert 0 < slow["seconds"] < 60
    shown = devmem("stores", file).stdout
    assert "Recalls: 1, of which 1 found something (100%)" in shown
    assert "When is the launch?" in shown


def test_a_memory_counts_what_its_handle_reaches(tmp_path: Path) -> None:
    filled(tmp_path)
    with library.open(tmp_path / "notes.db") as memory:
        assert statistics_of(memory.store, memory.guard.filter(), days=14).users == ((None, 2), ("ann", 2))
        bound = statistics_of(memory.store, memory.scoped(user="ann").guard.filter(), days=1)
    assert bound.users == (("ann", 2),)
    assert [count for _, count in bound.days] == [1]


def test_a_plan_as_tables_diagram_and_json(devmem: Devmem, workflow: Path, tmp_path: Path) -> None:
    done = devmem("validate", workflow, "--format", "plan")
    assert "analyst  notes  pre, gen             top_k 5, budget 4000" in done.stdout
    assert "everything stays in this process and its files" in done.stdout
    assert "the store 'board' is written, but no agent reads it" in done.stderr
    form = json.loads(devmem("validate", workflow, "--format", "plan", "--json").stdout)
    assert form["accesses"][0]["writes_at"] == ["finished"]
    picture = tmp_path / "plan.mmd"
    devmem("validate", workflow, "--format", "mermaid", "--output", picture)
    assert '    a0 -.->|"finished"| s0\n' in picture.read_text()
    assert not list(tmp_path.glob("*.db"))


def test_a_store_that_extracts_facts_sends_its_texts_to_the_model(devmem: Devmem, tmp_path: Path) -> None:
    facts = "{llm: {model: small, api_key: k, base_url: 'http://127.0.0.1:9'}}"
    file = tmp_path / "team.yaml"
    file.write_text(
        f"memory: [{{name: notes, type: simple, config: {{memory_path: notes.db, facts: {facts}}}}}]\n"
        "nodes: [{id: a, type: agent, config: {provider: extractive, memories: [notes]}}]\n"
    )
    shown = devmem("validate", file, "--format", "plan").stdout
    assert "texts (for `facts.llm`) of notes" in shown
