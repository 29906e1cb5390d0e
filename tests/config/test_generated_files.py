"""The files in `configs/` that are made from the models are those that the models make now."""

from __future__ import annotations

import json

from devmem.config import StoreTypes, design_template, workflow_schema

from .conftest import ROOT


def test_the_template_is_fresh(own_types: StoreTypes) -> None:
    command = "python -m tools.export_design_template --output configs/design_template.yaml"
    assert _content("design_template.yaml") == design_template(own_types), f"run: {command}"


def test_the_schema_is_fresh(own_types: StoreTypes) -> None:
    command = "devmem validate --format schema --output configs/workflow.schema.json"
    assert json.loads(_content("workflow.schema.json")) == workflow_schema(own_types), f"run: {command}"


def _content(name: str) -> str:
    return (ROOT / "configs" / name).read_text(encoding="utf-8")
