"""`devmem init` writes a workflow that runs at once, or a package that passes its suite."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from devmem.cli.commands import starting as init
from devmem.cli.commands.starting import StarterLanguage, StarterStore
from devmem.memory import opening
from tests.plugins.strangers import install, points_in

from .conftest import Devmem, one_paragraph

TOLD = "Ann moved the launch to June 2nd."
ASKED = "When is the launch?"
CHINESE = ("安娜把发布会从五月五日改到了六月二日。", "发布会是什么时候?")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, without a key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


@pytest.mark.parametrize("language", StarterLanguage)
@pytest.mark.parametrize("store", StarterStore)
def test_what_is_written_is_valid_and_runs_in_an_empty_folder(
    folder: Path, devmem: Devmem, store: StarterStore, language: StarterLanguage
) -> None:
    command = devmem("init", "--store", store.value, "--language", language.value).stdout
    assert command.startswith("devmem run team.yaml --input ")
    told, asked = CHINESE if language is StarterLanguage.ZH else (TOLD, ASKED)
    if store is StarterStore.FILE:
        (folder / "plan.md").write_text(f"# Plan\n\n{told}\n", encoding="utf-8")
    checked = devmem("validate", "team.yaml").stdout
    assert checked == "team.yaml: OK: 1 store, 1 node (1 agent), 0 edges, 1 attachment\n"
    devmem("run", "team.yaml", "--input", told)
    assert told.rstrip("。") in devmem("run", "team.yaml", "--input", asked).stdout
    assert (folder / "memory").is_dir()


def test_three_answers_are_taken_for_three_flags(folder: Path, devmem: Devmem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "can_ask", lambda: True)
    devmem("init", stdin="strange\nbrain\ngpt-4o-mini\nmultilingual\n")
    asked = (folder / "team.yaml").read_text(encoding="utf-8")
    devmem("init", "other.yaml", "--store", "brain", "--model", "gpt-4o-mini", "--language", "multilingual")
    given = (folder / "other.yaml").read_text(encoding="utf-8")
    assert asked == given.replace("other.yaml", "team.yaml")
    assert "type: brain" in asked
    assert 'model: "gpt-4o-mini"' in asked


def test_a_workflow_with_a_model_is_valid_and_can_do_without_it(folder: Path, devmem: Devmem) -> None:
    devmem("init", "--model", "gpt-4o-mini")
    assert devmem("validate", "team.yaml").stdout.startswith("team.yaml: OK")
    assert "has no key" in one_paragraph(devmem("run", "team.yaml", "--input", ASKED, code=2))
    devmem("run", "team.yaml", "--input", TOLD, "--chat", "extractive")
    assert TOLD in devmem("run", "team.yaml", "--input", ASKED, "--chat", "extractive").stdout


def test_without_minilm_words_alone_are_searched(folder: Path, devmem: Devmem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "installed_provider", lambda: None)
    devmem("init")
    assert "# embedding: {provider: minilm}" in (folder / "team.yaml").read_text(encoding="utf-8")
    devmem("run", "team.yaml", "--input", TOLD)


def test_nothing_is_overwritten_unless_it_is_forced(folder: Path, devmem: Devmem) -> None:
    path = folder / "my team.yaml"
    path.write_text("mine", encoding="utf-8")
    assert "already exists and was not changed" in one_paragraph(devmem("init", "my team.yaml", code=2))
    assert path.read_text(encoding="utf-8") == "mine"
    assert "devmem run 'my team.yaml' " in devmem("init", "my team.yaml", "--force").stdout
    assert devmem("validate", path).stdout.startswith(f"{path}: OK")


def test_what_cannot_be_is_refused(folder: Path, devmem: Devmem) -> None:
    assert "Usage:" in devmem("init", "--store", "simpel", code=2).stderr
    assert "--model is empty" in one_paragraph(devmem("init", "--model", " ", code=2))
    assert not list(folder.iterdir())


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
