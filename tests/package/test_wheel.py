"""The wheel, installed into an empty environment far from the sources: it remembers, and its types hold.

`make test` looks into the wheel, `make test-kits` installs it.
"""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from filelock import FileLock

from tools.trips.recorder import PACKAGES, package_folder
from tools.wheel import built_wheel, clean_environment, new_environment

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command that sees nothing of this environment."""
    words = [str(part) for part in command]
    done = subprocess.run(words, capture_output=True, text=True, cwd=cwd, env=clean_environment())
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build and install the wheel, once for all the processes that run the tests; return its interpreter."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "installed-wheel"
    folder.mkdir(exist_ok=True)
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    done = folder / "done"
    with FileLock(folder / "lock"):
        if not done.exists():
            new_environment(folder / "venv", str(built_wheel(folder / "dist")))
            done.touch()
    return python


def test_the_wheel_holds_the_two_packages_and_nothing_else(tmp_path: Path) -> None:
    names = zipfile.ZipFile(built_wheel(tmp_path)).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"devmem", "devmem_stores"}
    sources = [
        file.relative_to(folder.parent).as_posix()
        for folder in map(package_folder, PACKAGES)
        for file in folder.rglob("*")
        if file.suffix == ".py" or file.name == "py.typed"
    ]
    assert set(sources) <= set(names)
    assert {"devmem/py.typed"} <= set(names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


WORKFLOW = """
memory:
  - name: notes
    type: simple
    config:
      memory_path: auto
      embedding: {provider: minilm}
nodes:
  - id: answer
    type: agent
    config:
      memories: [{name: notes, top_k: 3}]
"""
PROGRAM = """
import sys
import devmem

workflow = devmem.load_workflow(sys.argv[1])
with devmem.open_stores(workflow) as stores:
    result = devmem.WorkflowRunner(workflow, stores).run(sys.argv[2])
    assert result.nodes[0].failures == (), result.nodes[0].failures
    print(result.output)
"""


@pytest.mark.kit
def test_a_second_process_answers_from_what_the_first_was_told(python: Path, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(WORKFLOW)
    (tmp_path / "run.py").write_text(PROGRAM)
    told, asked = (
        run(python, "-W", "error", "run.py", "flow.yaml", text, cwd=tmp_path).stdout
        for text in ("Our cat Pelle is afraid of thunderstorms.", "What scares the pet?")
    )
    assert "No relevant memories found" in told
    assert "Pelle is afraid of thunderstorms" in asked
