"""A plan on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Devmem


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
