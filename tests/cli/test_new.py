"""`devmem init --plugin`: the package that it writes passes its suite, and is found once it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.plugins.strangers import install, points_in

from .conftest import Devmem

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, *command: object) -> str:
    path = os.pathsep.join(map(str, (folder, ROOT, ROOT / "stores")))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, *map(str, command)]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("kind", "name"), [("store", "field_notes"), ("provider", "letters")])
def test_the_package_passes_its_suite_at_once(devmem: Devmem, tmp_path: Path, kind: str, name: str) -> None:
    folder = tmp_path / name
    done = devmem("init", folder, "--plugin", kind)
    assert done.stdout.startswith("cd ")
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert sum(len(file.read_text().splitlines()) for file in files) <= 60
    assert " passed" in run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def test_the_store_is_found_by_its_entry_point_and_runs_in_a_workflow(devmem: Devmem, tmp_path: Path) -> None:
    folder = tmp_path / "field_notes"
    devmem("init", folder, "--plugin", "store")
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    source = (folder / "devmem_field_notes" / "__init__.py").read_text()
    points = project["entry-points"]["devmem.stores"]
    installed = install(tmp_path / "site", project["name"], points, {"devmem_field_notes": source})
    (point,) = points_in(installed)
    assert (point.name, point.value) == ("field_notes", "devmem_field_notes:FieldNotesMemory")
    team = tmp_path / "team.yaml"
    team.write_text(
        "memory: [{name: notes, type: field_notes, config: {memory_path: notes.db, prefix: 'Seen: '}}]\n"
        "nodes: [{id: scribe, type: agent, config: {memories: [notes]}}]\n"
    )
    run(installed, "-m", "devmem", "run", team, "--input", "A heron stands in the pond.")
    assert "Seen: A heron" in run(installed, "-m", "devmem", "search", team, "heron")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["simple", "--plugin", "store"], "the store type 'simple' already exists"),
        (["minilm", "--plugin", "provider"], "the embedding provider 'minilm' already exists"),
        (["9x", "--plugin", "store"], "'9x' cannot be the name of a store type"),
        (["class", "--plugin", "store"], "use small letters, digits and _"),
        (["--plugin", "store"], "name the plugin"),
        (["notes", "--plugin", "store", "--model", "m"], "cannot be combined"),
    ],
)
def test_what_cannot_be_made_is_refused(devmem: Devmem, words: list[str], message: str) -> None:
    assert message in devmem("init", *words, code=2).stderr


def test_a_folder_that_is_there_stays_as_it_is(devmem: Devmem, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert "already exists" in devmem("init", tmp_path / "notes", "--plugin", "store", code=2).stderr
