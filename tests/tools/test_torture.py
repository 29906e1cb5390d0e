"""The short form of the torture kit: nothing is lost, doubled, leaked, wrong or stuck."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tools.torture.__main__ import FAULTS, app

ROOT = Path(__file__).parents[2]


def _marked(fault: str) -> object:
    return pytest.param(fault, marks=pytest.mark.postgres) if fault.startswith("postgres") else fault


@pytest.mark.kit
@pytest.mark.parametrize("fault", [_marked(fault) for fault in FAULTS])
def test_the_short_form(fault: str) -> None:
    command = [sys.executable, "-m", "tools.torture", fault, "--short", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_a_class_that_does_not_exist_is_named() -> None:
    done = CliRunner().invoke(app, ["earthquakes"], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert "there is no class 'earthquakes'" in done.output
