"""Build the documentation site: `python -m tools.site`, or `make docs`, which installs what it needs.

Nothing is fetched. A warning of Sphinx and a link that leads nowhere are errors.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from tools.site.pages import PageError, add_tables_of_contents, prepare
from tools.site.reference import write_reference
from tools.site.texts import write_texts

_HERE = Path(__file__).parent


def main(arguments: list[str]) -> int:
    """Build the site into a folder; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/site"), help="folder of the site, which is replaced")
    chosen = parser.parse_args(arguments)
    try:
        build(chosen.output)
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"Sphinx failed with exit code {error.returncode}; its messages are above", file=sys.stderr)
        return 1
    print(f"{chosen.output / 'index.html'}")
    return 0


def build(output: Path) -> None:
    """Write the site into the folder `output`, whose former content is removed.

    Raises:
        PageError: a page cannot become one of the site.
        subprocess.CalledProcessError: Sphinx warned or failed.
    """
    source, doctrees = (output.parent / f"{output.name}-{part}" for part in ("source", "doctrees"))
    for folder in (source, doctrees, output):
        shutil.rmtree(folder, ignore_errors=True)
    source.mkdir(parents=True)
    prepare(source)
    write_reference(source)
    write_texts(source, output)
    add_tables_of_contents(source)
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", _HERE, "-d", doctrees, source, output],
        check=True,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
