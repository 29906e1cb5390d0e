"""Replacing a file as a whole: whoever reads it meanwhile, or after a crash, finds the old one or the new one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4


def replace_file(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write the parts into a new file and put it in the place of `path`, durably.

    Raises:
        OSError: it cannot be written; `path` is as it was, as after whatever making a part raises.
    """
    new = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        with new.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        # Whatever it was, also a part that could not be made: nothing half-written stays.
        new.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power loss; Windows neither needs nor allows it."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
