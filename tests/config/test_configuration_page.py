"""`docs/configuration.md` shows documents that load, and an error as it really is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devmem.config import Attachment, MemoryOptions, StoreTypes, parse_workflow
from devmem.errors import ConfigError

PAGE = (Path(__file__).parents[2] / "docs/configuration.md").read_text(encoding="utf-8")
FENCES: list[tuple[str, str]] = re.findall(r"^```([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
DOCUMENTS = [text for kind, text in FENCES if kind == "yaml"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_load(document: str, own_types: StoreTypes) -> None:
    workflow = parse_workflow(document, own_types, environ={"OPENAI_API_KEY": "k"})
    assert workflow.unresolved == ()
    assert workflow.warnings == ()


def test_the_error_is_what_one_gets(own_types: StoreTypes) -> None:
    wrong = next(text for kind, text in FENCES if kind == "yaml fragment")
    shown = next(text for kind, text in FENCES if kind == "text")
    with pytest.raises(ConfigError) as caught:
        parse_workflow(wrong, own_types, origin="workflow.yaml", environ={})
    assert str(caught.value) == shown.rstrip()


def test_tables_have_every_key_and_default() -> None:
    for model in (Attachment, MemoryOptions):
        for name, field in model.model_fields.items():
            row = re.search(rf"^\| `{name}` \|([^|]*)\|", PAGE, re.MULTILINE)
            assert row, name
            if isinstance(field.default, (bool, int, float)):
                assert row[1].strip() == f"`{str(field.default).lower()}`", name
