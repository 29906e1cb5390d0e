"""Forgetting permanently: the selection of a call, and forgetting in every store of a workflow."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack, cast

from devmem.config.workflow import Workflow
from devmem.memory.repeats import copies_of, is_copy
from devmem.memory.scope import PARTS, ScopeGuard, ScopeParts, Values, Where, in_scope, make_filter
from devmem.model.filters import Filter
from devmem.model.times import When
from devmem.storage.erasure import EraseRequest
from devmem.stores import erasing
from devmem.stores.archiving import archived_items, every_archived
from devmem.stores.erasing import ForgetReceipt
from devmem.stores.memory import MemoryBase, observed

if TYPE_CHECKING:
    from devmem.workflow.forgetting import WorkflowReceipt


class Selected(ScopeParts, total=False):
    """Arguments of `Memory.forget`, which explains them."""

    where: Where | None
    metadata: Values | None
    before: When | None
    matching: str | None
    source: str | None
    run: str | None


def erase_request(guard: ScopeGuard, ids: Iterable[object], selected: Selected) -> EraseRequest:
    """Return a selection within a guard.

    Raises:
        ValueError: nothing says what to forget; is a variable not set?
        TypeError: an id is not text.
        ScopeError: the scope is out of reach.
    """
    named: dict[str, None] = {}
    for one in ids:
        if not isinstance(one, str):
            raise TypeError(f"an id is text, not {type(one).__name__}; several ids are forget(*ids)")
        named[one] = None
    if unknown := sorted(selected.keys() - Selected.__annotations__.keys()):
        raise TypeError(f"{unknown[0]!r} selects nothing; there are {', '.join(Selected.__annotations__)}")
    given = cast("Mapping[str, object]", selected)
    scope = cast("ScopeParts", {part: given[part] for part in ("user", *PARTS) if part in given})
    text, source, run = (_checked(name, selected.get(name)) for name in ("matching", "source", "run"))
    filtered = make_filter(selected.get("where"), metadata=selected.get("metadata"), before=selected.get("before"))
    if source is not None:
        filtered = replace(filtered, source_name=source)
    no_scope = all(value is None for value in scope.values())
    if not named and filtered == Filter() and no_scope and text is None and run is None:
        raise ValueError("say what to forget: ids, a scope, or a filter (user=devmem.ANY alone forgets everything)")
    # An id is exact: it needs no user beside it.
    exact = bool(named) and not scope
    reach = guard.filter(filtered) if exact else guard.matching(filtered, **scope)
    return EraseRequest(ids=tuple(named) if named else None, where=reach, text=text, run=run)


def forgotten(
    store: MemoryBase,
    guard: ScopeGuard,
    ids: Iterable[object],
    selected: Selected,
    *,
    dry_run: bool,
    verify: bool,
    vacuum: bool,
    tombstone: bool,
) -> ForgetReceipt:
    """Forget what is selected within a guard, with the copies of what is named by id, and return the receipt.

    Raises:
        ValueError, TypeError, ScopeError: as for `erase_request`.
        NoTombstonesError: the store keeps no tombstones, and is asked for one; nothing was forgotten.
    """
    request = replace(erase_request(guard, ids, selected), tombstone=tombstone)
    copies = _copies(store, request, store.setup.clock())
    selection = erasing.select_erasure(
        store,
        replace(request, ids=(*request.ids, *copies)) if request.ids else request,
        lambda item: not guard.is_bound or in_scope(item, guard.filter()),
    )
    if dry_run:
        return replace(erasing.preview(store, selection), copies=copies)
    named = request.ids[0] if request.ids and len(request.ids) == 1 else None
    with observed(store, "delete_memory", record=named) as operation:
        receipt = erasing.execute(store, selection, search=verify or vacuum, vacuum=vacuum)
        operation.records(receipt.items, tuple)
    return replace(receipt, copies=copies)


def _copies(store: MemoryBase, request: EraseRequest, now: float) -> tuple[str, ...]:
    """Return the ids of the copies of what is named by id, which would be found in its place."""
    named = set(request.ids or ())
    if not named:
        return ()
    there = (*store.get(list(named)), *archived_items(store, list(named)))
    items = [item for item in there if request.where.admits(item, now)]
    current = (copy for item in items for copy in copies_of(store, item))
    # The archive has no index, and is read as a whole.
    archived = (copy for copy in every_archived(store) if any(is_copy(copy, item) for item in items))
    found = [copy for copy in chain(current, archived) if request.where.admits(copy, now)]
    return tuple(dict.fromkeys(copy.id for copy in found if copy.id not in named))


def _checked(name: str, value: object) -> str | None:
    """Return a text that selects; raises `ValueError` for a blank one, which every item has."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"`{name}` is text, not {type(value).__name__}")
    if not value.strip():
        raise ValueError(f"`{name}` is empty; is a variable not set?")
    return value


_NONE: Final[Mapping[str, MemoryBase]] = {}


def forget(
    workflow: Workflow | str | os.PathLike[str],
    *ids: str,
    dry_run: bool = False,
    vacuum: bool = False,
    tombstone: bool = False,
    in_session: str | None = None,
    stores: Mapping[str, MemoryBase] = _NONE,
    **selected: Unpack[Selected],
) -> WorkflowReceipt:
    """Forget items in every store of a workflow, search its files for them, and return a receipt.

    ```python
    receipt = devmem.forget("team.yaml", user="ann")
    print(receipt.items, receipt.left, receipt.exports)
    ```

    With what is selected go its earlier versions, its copies, what was derived from it, and what waits for a store. All
    of it is decided durably before the first change: a process that dies leaves all or nothing, once opened again.

    Args:
        workflow: the workflow, or its file.
        ids: of the items to forget; all copies of an item have its id.
        dry_run: return the receipt of what would be forgotten; change nothing.
        vacuum: rewrite databases even if nothing is found in them.
        tombstone: as for `Memory.forget`; the receipt names a store that keeps none.
        in_session: the only session whose `auto` files are meant; None means all sessions.
        stores: stores that are open already, by name, such as those of a runner.
        selected: as for `Memory.forget`; without `user`, only unscoped memories are meant.

    Raises:
        ValueError: nothing says what to forget; is a variable not set?
        ConfigError: the workflow cannot be used.
        UnknownSessionError: there are no files of the session `in_session`.
        OSError: the decision cannot be written; nothing is forgotten.
    """
    # Takes as long to import as a search; a memory does not need it.
    from devmem.workflow.forgetting import WorkflowForgetting
    from devmem.workflow.stores import load_workflow

    declared = workflow if isinstance(workflow, Workflow) else load_workflow(Path(os.fsdecode(workflow)))
    request = replace(erase_request(ScopeGuard(), ids, selected), tombstone=tombstone)
    with WorkflowForgetting(declared, session=in_session, stores=stores) as forgetting:
        selection = forgetting.select(request, settle=not dry_run)
        return forgetting.preview(selection) if dry_run else forgetting.execute(selection, vacuum=vacuum)
