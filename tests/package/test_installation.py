"""The distribution has one name, and a package `devmem` that is not ours alone is refused."""

from __future__ import annotations

import compileall
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import devmem
from devmem.errors import NAME, DistributionClashError, MissingExtraError, install_command, installed_version
from devmem.installation import check_installation
from tools.trips.recorder import PACKAGES, package_folder

ROOT = Path(__file__).parents[2]


def test_the_name_of_the_project_is_the_one_in_messages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == NAME == devmem.__distribution__
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", installed_version())


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, f"pip install '{NAME}[openai]'"),
        ({"url": "file:///src/dev%20mem", "dir_info": {}}, "pip install '/src/dev mem[openai]'"),
        ({"url": "file:///src/devmem", "dir_info": {"editable": True}}, "pip install --editable '/src/devmem[openai]'"),
        ({"url": "file:///w/d.whl", "archive_info": {}}, f"pip install '{NAME}[openai] @ file:///w/d.whl'"),
        (
            {"url": "https://host/devmem.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            f"pip install '{NAME}[openai] @ git+https://host/devmem.git@abc'",
        ),
    ],
)
def test_the_hint_installs_from_where_devmem_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: dict[str, object] | None, command: str
) -> None:
    dist_info(tmp_path, NAME.replace("-", "_"))
    if origin is not None:
        (next(tmp_path.iterdir()) / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert install_command("openai") == command
    assert command in str(MissingExtraError(feature="it", package="openai", extra="openai"))


def dist_info(site: Path, name: str, *files: str) -> None:
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file in files:
        # From Python 3.12 on a distribution does not list files that are missing.
        (site / file).parent.mkdir(exist_ok=True)
        (site / file).touch()


def test_files_of_the_other_project_in_the_folder_are_refused(tmp_path: Path) -> None:
    dist_info(tmp_path, "devmem", "devmem/__init__.py", "devmem/memory.py")
    with pytest.raises(DistributionClashError, match=f"pip uninstall -y devmem {NAME} && pip install ") as caught:
        check_installation(tmp_path / "devmem")
    assert isinstance(caught.value, ImportError)
    assert "the distribution 'devmem', a tool for /dev/mem" in str(caught.value)


@pytest.mark.parametrize("starts", ["from devmem.cli import main; main(['--version'])", "import devmem.__main__"])
def test_the_command_refuses_where_the_other_package_was_installed_over_this_one(tmp_path: Path, starts: str) -> None:
    shutil.copytree(package_folder("devmem"), tmp_path / "devmem", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "devmem" / "__init__.py").write_text('"""Reads /dev/mem."""\n')
    done = subprocess.run(
        [sys.executable, "-c", starts],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: the package in ")
    assert "Traceback" not in done.stderr


def test_an_installation_without_sources_works(tmp_path: Path) -> None:
    """Some images keep the compiled files alone."""
    for source in map(package_folder, PACKAGES):
        shutil.copytree(source, tmp_path / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(tmp_path, legacy=True, quiet=1)
    for source in tmp_path.rglob("*.py"):
        source.unlink()
    code = (
        "import devmem\n"
        "assert all(getattr(devmem, name) for name in devmem.__all__)\n"
        "assert all(getattr(devmem.stores, name) for name in devmem.stores.__all__)\n"
        "with devmem.open('notes.db', embedding=None) as memory:\n"
        "    memory.add('The launch is on June 2nd.')\n"
        "    print(devmem.__file__.endswith('.pyc'), memory.search('launch')[0].text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.stdout.split(maxsplit=1) == ["True", "The launch is on June 2nd.\n"], done.stderr
