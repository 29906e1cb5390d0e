"""The name under which devmem is published, and how it is installed.

The import package is `devmem`, the distribution is not: on the public index `devmem` is another project, a tool for
/dev/mem that installs a package of the same name.
"""

from __future__ import annotations

from typing import Final

NAME: Final = "devmem-framework"
"""Name of the distribution, as in `pyproject.toml`."""
FOREIGN_NAME: Final = "devmem"
"""Name of the other project's distribution."""
PACKAGE: Final = "devmem"
"""Name of the import package, which both distributions install."""


def install_command(extra: str | None = None) -> str:
    """Return the command that installs devmem, with an extra."""
    return f"pip install '{NAME}[{extra}]'" if extra else f"pip install {NAME}"


def installed_version() -> str:
    """Return the version of the installed distribution; in a source tree that was not installed, that there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(NAME)
    except PackageNotFoundError:
        return f"without a version: {NAME} is not installed"
