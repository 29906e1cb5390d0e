"""Removing what killed writers left behind."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from devmem.text.atomic_write import remove_leftovers

_LOG: Final = logging.getLogger(__name__)


def clean_up(*paths: Path) -> None:
    """Remove the partial files of killed writers of some files, or in some folders; a failure is logged."""
    for path in paths:
        try:
            removed = remove_leftovers(path)
        except OSError as error:
            _LOG.warning("%s: a partial file of a killed process was not removed: %s", path, error)
        else:
            if removed:
                _LOG.info("%s: removed %d partial file(s) of a killed process.", path, removed)
