"""The recorded team: three agents and two tools, whose call tree the documentation shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from configs.recorded import run
from devmem import load_workflow

SHOWN = Path(run.__file__).with_name("calls.txt")
"""The call tree that the page of `conversation` stores links to."""
_TOOK = re.compile(r"\(\d+\.\d{3} s\)")


def test_the_call_tree_is_the_one_of_the_documentation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stores = Path(shutil.copy(Path(run.__file__).parent / "stores.yaml", tmp_path))
    run.run(load_workflow(stores))
    tree, timeline = capsys.readouterr().out.rstrip("\n").split("\n\n")
    assert _TOOK.sub("", tree) == _TOOK.sub("", SHOWN.read_text(encoding="utf-8").rstrip("\n"))
    assert len(timeline.splitlines()) == 14
