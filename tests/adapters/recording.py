"""A memory of a workflow with `record_recalls`, and what its log says that agents were shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import devmem
from tests.command_line import recalls

_WORKFLOW = """
memory: [{name: notes, type: simple, config: {memory_path: notes.db}}]
record_recalls: true
"""


@contextmanager
def recording_memory(folder: Path) -> Iterator[devmem.Memory]:
    """Open the memory of a workflow in a folder."""
    file = folder / "team.yaml"
    file.write_text(_WORKFLOW, encoding="utf-8")
    with devmem.open(file) as memory:
        yield memory


def recalls_in(folder: Path) -> list[Any]:
    """Return what was recorded, oldest first."""
    return recalls(folder / "team.yaml")
