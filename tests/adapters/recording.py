"""A memory of a workflow with `record_recalls`, and what its log says that agents were shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import devmem
from devmem.storage.recall_log import FILE_NAME, Recall, RecallLog
from devmem.workflow import session_folder

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


def recalls_in(folder: Path) -> list[Recall]:
    """Return what was recorded, oldest first."""
    workflow = devmem.load_workflow(str(folder / "team.yaml"))
    return RecallLog(session_folder(workflow) / FILE_NAME).recalls()
