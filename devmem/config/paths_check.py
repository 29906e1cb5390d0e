"""Relative paths of DevAll's (ChatDev 2) documents, which start at the working directory there."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Final

from devmem.config.report import Report
from devmem.config.rules import Rule
from devmem.config.store import StoreDeclaration

_KEYS: Final = ("memory_path", "index_path")


def warn_about_paths(report: Report, stores: Sequence[StoreDeclaration], base_dir: pathlib.Path) -> None:
    """Warn where DevAll would find a file in the working directory and devmem starts a new one beside the workflow."""
    for store in stores:
        if store.place.location[:1] != ("graph",):
            continue
        for key in _KEYS:
            written = getattr(store.config, key, None)
            if written is None or str(written) == "auto":
                continue
            ours, theirs = base_dir / str(written), pathlib.Path(str(written))
            if not theirs.is_absolute() and theirs.exists() and not ours.exists():
                message = (
                    f"paths start at the workflow's folder here, so this is {str(ours)!r}, which does not exist; "
                    f"DevAll takes {str(theirs.resolve())!r}, which does"
                )
                report.warn((*store.place.location, "config", key), message, Rule.MISSING_FILE)
