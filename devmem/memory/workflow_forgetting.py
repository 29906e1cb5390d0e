"""Forgetting in every store of a workflow at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Unpack

from devmem.config import Workflow
from devmem.forgetting.receipts import WorkflowReceipt
from devmem.memory.boundary import Boundary
from devmem.memory.forgetting import Selected, erasing_of
from devmem.runtime.forgetting import WorkflowForgetting
from devmem.runtime.loading import load_workflow
from devmem.stores import MemoryBase

_NONE: Final[Mapping[str, MemoryBase]] = {}


def forget(
    workflow: Workflow | str | os.PathLike[str],
    *ids: str,
    dry_run: bool = False,
    vacuum: bool = False,
    in_session: str | None = None,
    stores: Mapping[str, MemoryBase] = _NONE,
    **selected: Unpack[Selected],
) -> WorkflowReceipt:
    """Forget items in every store of a workflow, search its files for them, and return a receipt.

    ```python
    receipt = devmem.forget("team.yaml", user="ann")
    print(receipt.items, receipt.left, receipt.exports)
    ```

    With what is selected go its earlier versions, its copies in other stores, what was derived from it, such as
    summaries, and writes and records that wait for a store. What is forgotten is decided durably before the first
    change: a process that dies leaves all of it or nothing, once the workflow is opened again.

    Args:
        workflow: the workflow, or its file.
        ids: of the items to forget; all copies of an item have its id.
        dry_run: return the receipt of what would be forgotten; change nothing.
        vacuum: rewrite databases even if nothing is found in them.
        in_session: the only session whose `auto` files are meant; None means all sessions.
        stores: stores that are open already, by name, such as those of a runner.
        selected: as for `Memory.forget`; without a user, what is bound to nobody is meant.

    Raises:
        ValueError: nothing says what to forget; is a variable not set?
        ConfigError: the workflow cannot be used.
        UnknownSessionError: there are no files of the session `in_session`.
        OSError: the decision cannot be written; nothing is forgotten.
    """
    declared = workflow if isinstance(workflow, Workflow) else load_workflow(Path(os.fsdecode(workflow)))
    erasing = erasing_of(Boundary(), ids, selected)
    with WorkflowForgetting(declared, session=in_session, stores=stores) as forgetting:
        plan = forgetting.plan(erasing, settle=not dry_run)
        return forgetting.preview(plan) if dry_run else forgetting.carry_out(plan, vacuum=vacuum)
