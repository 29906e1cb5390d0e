"""Every key of an example workflow, misspelt once: the message names the line, the key and what was meant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from devmem.config import check_workflow
from devmem.errors import Finding
from devmem.plugins import registry

CONFIGS: Final = Path(__file__).parents[2] / "configs"
EXAMPLES: Final = ("documents.yaml", "openai.yaml", "recorded.yaml", "two_agents.yaml")
SET: Final = {"API_KEY": "key", "BASE_URL": "http://localhost/v1"}
FREE: Final = ("vars", "params")
"""Mappings whose keys are anybody's: a variable that is missing is reported where it is used."""


def keys_of(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            if key.value not in FREE:
                yield from keys_of(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from keys_of(value)


def misspelt(word: str) -> str:
    """Swap two letters where they differ, or double the last one."""
    if len(word) > 3 and word[2] != word[3]:
        return word[:2] + word[3] + word[2] + word[4:]
    return word + word[-1]


def findings(text: str, folder: Path) -> tuple[Finding, ...]:
    file = folder / "w.yaml"
    file.write_text(text, encoding="utf-8")
    return check_workflow(file, registry, environ=SET).findings


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_misspelt_key_is_named_with_what_was_meant(name: str, tmp_path: Path) -> None:
    text = (CONFIGS / name).read_text("utf-8")
    keys = list(keys_of(yaml.compose(text, Loader=yaml.SafeLoader)))
    for key in keys:
        wrong = misspelt(key.value)
        found = findings(text[: key.start_mark.index] + wrong + text[key.end_mark.index :], tmp_path)
        here = [each for each in found if each.line == key.start_mark.line + 1 and wrong in each.path]
        assert any(repr(key.value) in each.message for each in here), (key.start_mark.line + 1, wrong, found)
