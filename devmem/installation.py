"""Makes sure that the package `devmem` is this one, and not mixed with the other project's of that name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from devmem.errors import FOREIGN_NAME, PACKAGE, DistributionClashError

MARK: Final = "__distribution__"
"""Attribute of our `devmem/__init__.py` that another package of that name does not have."""


def check_installation(folder: Path = Path(__file__).parent) -> None:
    """Make sure that the files of the package `devmem` are all of this distribution.

    Both distributions install into one folder `devmem`: whichever came second has overwritten files of the first.

    Args:
        folder: the folder of the package.

    Raises:
        DistributionClashError: the package that was imported, or some of its files, belong to the other project.
    """
    if not hasattr(sys.modules.get(PACKAGE), MARK):
        raise DistributionClashError(folder)
    if any(folder.parent.glob(f"{FOREIGN_NAME}-*-info")) and _foreign_files(folder):
        raise DistributionClashError(folder)


def _foreign_files(folder: Path) -> bool:
    """Whether the other project's distribution beside the package lists files of it; an editable install lists none."""
    from importlib.metadata import distributions

    found = distributions(name=FOREIGN_NAME, path=[str(folder.parent)])
    return any(file.parts[0] == PACKAGE for each in found for file in each.files or ())
