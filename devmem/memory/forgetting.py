"""Forgetting records of a memory for good."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Unpack

from devmem.config.workflow import Workflow
from devmem.memory.reading import VersionedMemory
from devmem.memory.records import When
from devmem.memory.scope import Boundary, ScopeParts, Values, in_scope, make_filter
from devmem.search.query import Filter
from devmem.storage.erasure import EraseRequest
from devmem.stores import forgetting
from devmem.stores.forgetting import ForgetReceipt
from devmem.stores.memory import MemoryBase, async_twin
from devmem.workflow.erase_plan import WorkflowReceipt
from devmem.workflow.forgetting import WorkflowForgetting
from devmem.workflow.stores import load_workflow


class Selected(ScopeParts, total=False):
    """Arguments of `ForgettingMemory.forget`, which explains them."""

    where: Filter | None
    metadata: Values | None
    before: When | None
    matching: str | None
    source: str | None
    run: str | None


class ForgettingMemory(VersionedMemory):
    """The methods of a memory that forget."""

    def forget(self, *ids: str, dry_run: bool = False, **selected: Unpack[Selected]) -> int:
        """Forget what is named by id, by scope or by a filter; what is named in several ways must be all of them.

        What was derived from it, such as summaries, is forgotten too, and the earlier versions of all of it: `history`
        and `as_of` do not show them any more, and the bytes leave the files. `erase` also searches the files for them.

        Args:
            ids: of the records to forget.
            dry_run: count them only.
            selected: `where`, a filter for what the other arguments cannot say; `metadata`, values that the records
                have; `before`, when they happened; `matching`, a part of their text in any case; `source`, the document
                or other source that they came from; `run`, in which they were written; and whose they are: a `user`,
                an `agent`, a `session` or a `conversation` alone means all of it.

        Returns:
            Number of records that are forgotten, or with `dry_run` would be.

        Raises:
            ValueError: nothing says what to forget; is a variable not set?
            ScopeError: the scope is out of reach.
        """
        return self._forget(ids, dry_run=dry_run, search=False, vacuum=False, selected=selected).items

    def erase(
        self, *ids: str, dry_run: bool = False, vacuum: bool = False, **selected: Unpack[Selected]
    ) -> ForgetReceipt:
        """Forget as `forget` does, search the files for what was forgotten, and return a receipt.

        Args:
            ids: of the records to forget.
            dry_run: return the receipt of what would be forgotten; change nothing.
            vacuum: rewrite the database even if nothing is found in it.
            selected: as for `forget`.

        Raises:
            ValueError: nothing says what to forget; is a variable not set?
            ScopeError: the scope is out of reach.
        """
        return self._forget(ids, dry_run=dry_run, search=True, vacuum=vacuum, selected=selected)

    def _forget(
        self, ids: Iterable[object], *, dry_run: bool, search: bool, vacuum: bool, selected: Selected
    ) -> ForgetReceipt:
        plan = forgetting.plan_forgetting(
            self.store,
            erasing_of(self._boundary, ids, selected),
            lambda item: not self._boundary.is_sealed or in_scope(item, self._boundary.filter()),
        )
        if dry_run:
            return forgetting.preview(self.store, plan)
        return forgetting.forget(self.store, plan, search=search, vacuum=vacuum)

    aforget = async_twin(forget)
    aerase = async_twin(erase)


def erasing_of(boundary: Boundary, ids: Iterable[object], selected: Selected) -> EraseRequest:
    """Return a selection within a boundary.

    Raises:
        ValueError: nothing says what to forget; is a variable not set?
        TypeError: an id is not text.
        ScopeError: the scope is out of reach.
    """
    named = _checked_ids(ids)
    scope = ScopeParts()
    if "user" in selected:
        scope["user"] = selected["user"]
    if "agent" in selected:
        scope["agent"] = selected["agent"]
    if "session" in selected:
        scope["session"] = selected["session"]
    if "conversation" in selected:
        scope["conversation"] = selected["conversation"]
    text, source, run = (_checked(name, selected.get(name)) for name in ("matching", "source", "run"))
    filtered = make_filter(selected.get("where"), metadata=selected.get("metadata"), before=selected.get("before"))
    if source is not None:
        filtered = replace(filtered, source_name=source)
    no_scope = all(value is None for value in scope.values())
    if not named and filtered == Filter() and no_scope and text is None and run is None:
        raise ValueError("say what to forget: ids, a scope, or a filter (user=devmem.ANY alone forgets everything)")
    # An id is exact: it needs no user beside it.
    exact = bool(named) and not scope
    reach = boundary.filter(filtered) if exact else boundary.matching(scope, filtered)
    return EraseRequest(ids=tuple(named) if named else None, where=reach, text=text, run=run)


def _checked(name: str, value: object) -> str | None:
    """Return a text that selects; raises `ValueError` for a blank one, which every item has."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"`{name}` is text, not {type(value).__name__}")
    if not value.strip():
        raise ValueError(f"`{name}` is empty; is a variable not set?")
    return value


def _checked_ids(ids: Iterable[object]) -> list[str]:
    """Return each id once.

    Raises:
        TypeError: one is not text; a list of ids needs a star before it.
    """
    found: dict[str, None] = {}
    for one in ids:
        if not isinstance(one, str):
            raise TypeError(f"an id is text, not {type(one).__name__}; several ids are forget(*ids)")
        found[one] = None
    return list(found)


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
