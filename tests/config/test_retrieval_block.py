"""The `retrieval:` block: what YAML makes of its words, and which rerankers can be asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmem.config import RetrievalConfig, StoreTypes, check_workflow, parse_workflow
from devmem.errors import ConfigError, Level
from devmem.models import Reranker, register_reranker
from devmem.stores import CollectionConfig

from .fakes import FakeTypes


def text_of(block: str, **more: str) -> str:
    rest = "".join(f"      {key}: {value}\n" for key, value in more.items())
    return f"memory:\n  - name: notes\n    type: simple\n    config:\n{rest}      retrieval:\n        {block}\n"


def read(types: StoreTypes, block: str, **more: str) -> RetrievalConfig:
    config = parse_workflow(text_of(block, **more), types, origin="w.yaml", environ={}).store("notes").config
    assert isinstance(config, CollectionConfig)
    return config.retrieval


def refuse(types: StoreTypes, block: str, **more: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(types, block, **more)
    (problem,) = caught.value.problems
    return str(problem)


@pytest.mark.parametrize(
    ("written", "meant"), [("off", "off"), ("'off'", "off"), ("no", "off"), ("boost", "boost"), ("narrow", "narrow")]
)
def test_times(own_types: StoreTypes, written: str, meant: str) -> None:
    assert read(own_types, f"time: {written}").time == meant


@pytest.mark.parametrize(("written", "shown"), [("on", "true"), ("0", "the number 0"), ("of", "the text 'of'")])
def test_times_that_are_none(own_types: StoreTypes, written: str, shown: str) -> None:
    wanted = f"expected one of boost, narrow, off, found {shown}"
    assert refuse(own_types, f"time: {written}").startswith(f"w.yaml:6: memory[0].config.retrieval.time: {wanted}")


@pytest.mark.parametrize(
    ("block", "late_interaction", "reads_hits"),
    [
        ("{}", True, False),
        ("{type: none}", False, False),
        ("{type: llm, model: m, timeout: 3, params: {temperature: 0}}", True, True),
        ("{type: cross_encoder, model_path: models/ce, depth: 5}", True, True),
    ],
)
def test_rerankers(own_types: StoreTypes, block: str, late_interaction: bool, reads_hits: bool) -> None:
    found = read(own_types, f"reranker: {block}")
    assert (found.late_interaction, found.reranker.reads_hits) == (late_interaction, reads_hits)


def test_a_form_that_writes_every_default_is_read(own_types: StoreTypes) -> None:
    written = "{type: none, depth: 20, model_path: null, provider: openai, model: null, timeout: 10, params: {}}"
    assert read(own_types, f"reranker: {written}").reranker.type == "none"


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("{type: llm}", ": `type: llm` needs `model`, the name of a chat model"),
        ("{type: llm, model: ''}", ": `type: llm` needs `model`, the name of a chat model"),
        ("{type: llm, provider: extractive}", ": `type: llm` needs a chat model; `provider: extractive` gives no"),
        ("{type: cross_encoder}", ": `type: cross_encoder` needs `model_path`, the folder of a model"),
        ("{type: late_interction}", ".type: unknown reranker 'late_interction'; did you mean 'late_interaction'?"),
        ("{type: '${NAME}', model: m}", ".type: the variable NAME is not set"),
    ],
)
def test_mistakes_are_found_with_line_and_path(own_types: StoreTypes, block: str, told: str) -> None:
    place = "w.yaml:6: memory[0].config.retrieval.reranker"
    assert refuse(own_types, f"reranker: {block}").startswith(f"{place}{told}")


def make_reranker(_config: object, _base_dir: Path) -> Reranker:
    raise NotImplementedError


def test_a_registered_reranker_may_have_any_keys(own_types: StoreTypes) -> None:
    register_reranker("test_configured", make_reranker)
    found = read(own_types, "reranker: {type: test_configured, model: m, model_path: p, params: {a: 1}}")
    assert found.reranker.params == {"a": 1}


def test_a_plugin_is_imported_before_its_reranker_is_looked_up() -> None:
    types = FakeTypes(simple=CollectionConfig)
    assert "unknown reranker 'acme_plugin'" in refuse(types, "reranker: {type: acme_plugin}")
    text = f"plugins: [acme.stores]\n{text_of('reranker: {type: acme_plugin}')}"
    assert parse_workflow(text, FakeTypes(simple=CollectionConfig), environ={}).warnings == ()


def test_devalls_ranking_takes_no_reranker(own_types: StoreTypes) -> None:
    told = refuse(own_types, "reranker: {type: llm, model: m}", ranking="devall")
    assert told.startswith("w.yaml:4: memory[0].config: `ranking: devall` is DevAll's own order, which no reranker")
    assert read(own_types, "reranker: {type: none}", ranking="devall").reranker.type == "none"


def test_a_token_model_without_token_vectors_is_a_finding(own_types: StoreTypes, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(text_of("tokens: {provider: openai, api_key: x}", embedding="{provider: minilm}") + "nodes: []\n")
    found = [one for one in check_workflow(file, own_types, environ={}).findings if one.level is Level.ERROR]
    assert [(one.path, one.message) for one in found] == [
        ("memory[0].config.retrieval.tokens.provider", "'openai' has no token vectors, so the store cannot be opened")
    ]


@pytest.mark.parametrize(
    ("config", "key", "said"),
    [
        (
            "{retrieval: {reranker: {model: gpt}}}",
            "retrieval.reranker.model",
            "'late_interaction' does not read `model`",
        ),
        ("{retrieval: {reranker: {depth: 5}}}", "retrieval.reranker.depth", "it is for cross_encoder, llm"),
        ("{guard: {checks: [{api_key: hunter2}]}}", "guard.checks[0].api_key", "'orders' does not read `api_key`"),
        ("{ttl: 90d, retention: 30d}", "ttl", "deleted by `retention` before they expire"),
    ],
)
def test_settings_without_effect_are_findings(
    own_types: StoreTypes, tmp_path: Path, config: str, key: str, said: str
) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(f"memory: [{{name: notes, type: simple, config: {config}}}]\nnodes: []\n")
    found = [one for one in check_workflow(file, own_types, environ={}).findings if one.level is Level.WARNING]
    assert [one.path for one in found] == [f"memory[0].config.{key}"]
    assert said in found[0].message
    assert "hunter2" not in found[0].message
