"""Importing `mem0ai`: only when a store needs it, and with its telemetry off unless it is asked for.

What the import itself does (mem0ai 2.2.1): `mem0/memory/setup.py` makes `$MEM0_DIR/config.json` (else in `~/.mem0`),
and `mem0/memory/telemetry.py` opens a PostHog client unless `$MEM0_TELEMETRY` says no; both are read once.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final

from devmem import MissingExtraError
from devmem_stores.mem0.errors import Mem0SetupError
from devmem_stores.mem0.masking import hide_in_logs

_LOCK: Final = threading.Lock()
_OPERATION: Final = "start"


def check_package() -> None:
    """Make sure that a fitting mem0 is installed, without importing it.

    Raises:
        MissingExtraError: it is not installed.
        Mem0SetupError: it is another major version.
    """
    try:
        installed = version("mem0ai") if "mem0" in sys.modules or find_spec("mem0") is not None else ""
    except PackageNotFoundError:
        installed = ""
    if not installed:
        raise MissingExtraError(
            feature="store type 'mem0'", package="mem0ai", extra="mem0", advice="(or: pip install mem0ai)"
        )
    if installed.split(".")[0] != "2":
        raise Mem0SetupError(_OPERATION, f"mem0ai {installed} is installed, and devmem works with 2.x")


def load_mem0(*, telemetry: bool, folder: Path | None, secrets: Sequence[str]) -> ModuleType:
    """Import mem0.

    Args:
        telemetry: whether it may report its use.
        folder: takes the files that it keeps about itself; None makes a temporary one.
        secrets: stay out of its logs.

    Raises:
        MissingExtraError, Mem0SetupError: see `check_package`; or its telemetry cannot be switched any more.
    """
    with _LOCK:
        if "mem0" not in sys.modules:
            check_package()
            os.environ["MEM0_TELEMETRY"] = "True" if telemetry else "False"
            os.environ.setdefault("MEM0_DIR", str(folder or tempfile.mkdtemp(prefix="devmem-mem0-")))
        with warnings.catch_warnings():
            # mem0 changes the process's warning filters when it is imported, and its dependencies warn of each other.
            warnings.simplefilter("ignore")
            mem0 = importlib.import_module("mem0")
            reporting = importlib.import_module("mem0.memory.telemetry").MEM0_TELEMETRY
    hide_in_logs(secrets)
    if reporting and not telemetry:
        raise Mem0SetupError(
            _OPERATION,
            "mem0 was imported before with its telemetry on, and cannot be told otherwise any more: set "
            "MEM0_TELEMETRY=False before the program starts, or `telemetry: true` in the store's `config`",
        )
    return mem0
