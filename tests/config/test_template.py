"""The template and the other files that are made from the models are those that the models make now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from devmem.config import StoreTypes, design_template, workflow_schema
from tools.export_design_template import main

from .conftest import ROOT
from .fakes import FakeTypes, TreeConfig


def test_the_format_of_every_kind_of_field(store_types: FakeTypes) -> None:
    template = yaml.safe_load(design_template(store_types))
    store = template["memory"][0]
    notes = store["config"]["<variant[config]=notes>"]
    assert template["version"] == '<string> | "0.0.0"'
    assert template["vars"] == {"<key>": "<value> | required"}
    assert store["name"] == "<string> | required"
    assert store["type"] == "<string> | [notes, files, cloud, broken]"
    assert notes["memory_path"] == "<string> | None"
    assert notes["max_items"] == "<int> | 1000"
    assert notes["strict"] == "<bool> | false"
    assert notes["weights"] == {"<key>": "<value> | required"}
    assert notes["tags"] == "<string | list[str]> | []"
    assert notes["embedding"]["provider"] == "<string> | [local, minilm, openai]"
    assert notes["embedding"]["params"]["timeout"] == "<float> | 30.0"
    sources = store["config"]["<variant[config]=files>"]["file_sources"]
    assert sources == [
        {"path": "<string> | required", "file_types": ["<string> | None"], "recursive": "<bool> | true"},
    ]


def test_a_model_that_contains_itself_ends_in_a_mark() -> None:
    text = design_template(FakeTypes(tree=TreeConfig))
    mark = "<recursive[TreeConfig] path: WorkflowDocument → StoreDeclaration → TreeConfig → TreeConfig>"
    tree = yaml.safe_load(text)["memory"][0]["config"]["<variant[config]=tree>"]
    assert list(tree["children"][0]) == [mark]


def test_a_version_can_be_pinned(store_types: FakeTypes) -> None:
    assert yaml.safe_load(design_template(store_types, "0.4.0"))["version"] == "0.4.0"


def test_the_program_writes_every_file(
    tmp_path: Path, store_types: FakeTypes, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = tmp_path / "a" / "t.yaml", tmp_path / "b.yaml", tmp_path / "c.yaml"
    arguments = ["--output", first, "--mirror", second, third, "--version", "9"]
    assert main([str(one) for one in arguments], store_types=store_types) == 0
    assert first.read_text(encoding="utf-8") == design_template(store_types, "9")
    assert second.read_bytes() == third.read_bytes() == first.read_bytes()
    assert capsys.readouterr().out.splitlines() == [f"wrote {path}" for path in (first, second, third)]


def test_the_template_is_fresh(own_types: StoreTypes) -> None:
    command = "python -m tools.export_design_template --output configs/design_template.yaml"
    assert _content("design_template.yaml") == design_template(own_types), f"run: {command}"


def test_the_schema_is_fresh(own_types: StoreTypes) -> None:
    command = "devmem validate --format schema --output configs/workflow.schema.json"
    assert json.loads(_content("workflow.schema.json")) == workflow_schema(own_types), f"run: {command}"


def _content(name: str) -> str:
    return (ROOT / "configs" / name).read_text(encoding="utf-8")
