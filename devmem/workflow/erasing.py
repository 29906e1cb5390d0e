"""Carrying out what was planned: decided durably, erased in every place, looked for in the files; or finished later."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from devmem.errors import DevmemError
from devmem.model.items import Scope
from devmem.search.query import Filter
from devmem.storage.erasure import EraseRequest, EraseResult, Residue, search_files, words_in, words_of
from devmem.storage.searching import ExportRecord
from devmem.storage.sidecar_db import is_in_rows, tables_of
from devmem.stores.abilities import exports_of
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.erasure_decisions import DecidedPart, decided, decided_parts, remove_undecided
from devmem.stores.forgetting import ForgetReceipt
from devmem.stores.memory import MemoryBase
from devmem.workflow.erase_plan import ForgettingPlan, Target, TargetPlan, WorkflowReceipt, remove_waiting


def files_below(places: Iterable[Path]) -> list[Path]:
    """Return the files among some places, and those in the folders among them, each once."""

    def listed(place: Path) -> Iterator[Path]:
        if place.is_dir():
            yield from (file for file in sorted(place.rglob("*")) if file.is_file())
        elif place.exists():
            yield place

    return list(dict.fromkeys(file for place in places for file in listed(place)))


def search_rest(files: Sequence[Path], words: Sequence[str]) -> tuple[list[str], list[Residue]]:
    """Look for words in files; return the files without any, and those with some.

    A word that is in a row of one of the databases, or in a write that still waits, belongs to what remains, and says
    nothing.
    """
    databases = [file for file in files if tables_of(file)]
    lines = [file for file in files if file.suffix == ".jsonl"]
    known: dict[str, bool] = {}

    def remains(word: str) -> bool:
        if word not in known:
            known[word] = any(is_in_rows(file, word) for file in databases) or any(
                words_in(file, [word]) for file in lines
            )
        return known[word]

    return search_files(files, words, remains)


_LOG: Final = logging.getLogger(__name__)
_SHARED: Final = "-shm"
"""End of the name of a file that SQLite's connections share, which holds no content."""


def preview(plan: ForgettingPlan) -> WorkflowReceipt:
    """Return the receipt of a dry run; nothing is changed."""
    receipts: list[ForgetReceipt] = []
    for each in plan.targets:
        if each.items:
            with each.target.open() as store:
                there, exports = store.get(list(each.items)), exports_of(store, each.items.values())
            receipts.append(_receipt(each, EraseResult(items=len(there)), exports))
    return WorkflowReceipt(stores=tuple(receipts), writes=plan.writes, unreached=tuple(plan.unreached))


def carry_out(
    plan: ForgettingPlan, decisions: Path, files: Iterable[Path], *, search: bool = True, vacuum: bool = False
) -> WorkflowReceipt:
    """Forget what is planned, in every place, or, if it cannot be decided, nothing; return the receipt.

    Args:
        plan: what is forgotten.
        decisions: folder in which the decision is kept until everything is done.
        files: files and folders that are searched afterwards, beside those of the stores.
        search: look for what was forgotten in the files.
        vacuum: rewrite databases even if nothing is found in them.

    Raises:
        OSError: the decision cannot be written; nothing is forgotten.
    """
    planned = [each for each in plan.targets if each.items]
    words = words_of(plan.items) if search else []
    remove_undecided(decisions)
    with decided(decisions, [*map(_part_of, planned), *_parts_of_waiting(plan)]) as parts:
        # Every database knows what is decided before the first one changes.
        counts = [_announce(each, part) for each, part in zip(planned, parts, strict=False)]
        receipts = [
            _erase(each, part, words, count, vacuum=vacuum)
            for each, part, count in zip(planned, parts, counts, strict=False)
        ]
        left = [*plan.unreached, *(left for part in parts[len(planned) :] for left in _finish_lines(part))]
    reached, found = _search(plan, files, receipts, words) if words else ([], [])
    return WorkflowReceipt(
        stores=tuple(receipts), writes=plan.writes, reached=tuple(reached), unreached=(*left, *found)
    )


def _search(
    plan: ForgettingPlan, files: Iterable[Path], receipts: Sequence[ForgetReceipt], words: Sequence[str]
) -> tuple[list[str], list[Residue]]:
    """Look for words in the files that the stores' own receipts do not name; those of unusable stores say nothing."""
    searched = {place for receipt in receipts for place in _places(receipt)}
    own = [file for each in plan.targets if each.is_usable for file in each.target.files]
    unusable = files_below(file for each in plan.targets if not each.is_usable for file in each.target.files)
    searched.update(map(str, unusable))
    rest = [file for file in files_below([*own, *files]) if str(file) not in searched]
    return search_rest([file for file in rest if not file.name.endswith(_SHARED)], words)


def _places(receipt: ForgetReceipt) -> Iterator[str]:
    yield from receipt.reached
    yield from (left.place for left in receipt.unreached)


def _part_of(each: TargetPlan) -> DecidedPart:
    users = {item.scope.user for item in each.items.values()}
    user = users.pop() if len(users) == 1 else None
    return DecidedPart.of_store(each.target.setup, list(each.items), user=user)


def _parts_of_waiting(plan: ForgettingPlan) -> list[DecidedPart]:
    return [DecidedPart(kind="lines", place=str(each.file), names=each.checksums) for each in plan.waiting]


def _announce(each: TargetPlan, part: DecidedPart) -> int:
    """Record the part of a store that other machines open too in its database; return the number of its items."""
    if not each.target.is_elsewhere:
        return 0
    try:
        with each.target.open() as store:
            return store.begin_purge(_erasing(store, part))
    except (DevmemError, OSError) as error:
        # It is decided all the same; where the database cannot be used, the receipt names it.
        _LOG.warning("%s: only this machine knows what is to be forgotten: %s", each.target.label, error)
        return 0


def _erase(each: TargetPlan, part: DecidedPart, words: Sequence[str], count: int, *, vacuum: bool) -> ForgetReceipt:
    """Erase the part of one store; return its receipt.

    Another machine that opened the store meanwhile may have erased some of the `count` items that were there.
    """
    try:
        with each.target.open() as store:
            exports = exports_of(store, each.items.values())
            done = store.purge(_erasing(store, part), words=words, vacuum=vacuum)
        part.done()
    except (DevmemError, OSError) as error:
        reason = f"it is decided, and is done when the store is next opened or forgotten from: {error}"
        return _receipt(
            each, EraseResult(unreached=(Residue(place=each.target.label, reason=reason, failed=True),)), ()
        )
    return _receipt(each, replace(done, items=max(done.items, count)), exports)


def _erasing(store: MemoryBase, part: DecidedPart) -> EraseRequest:
    # A store in front of a service lists by user; where items are found by id, their users make no difference.
    where = Filter() if isinstance(store, CollectionMemory) else Filter(scope=Scope(user=part.user))
    return EraseRequest(ids=part.names, where=where)


def _receipt(each: TargetPlan, done: EraseResult, exports: Sequence[ExportRecord]) -> ForgetReceipt:
    return ForgetReceipt(
        store=each.target.label,
        items=done.items,
        derived=tuple(each.derived),
        reached=done.reached,
        unreached=done.unreached,
        exports=tuple(exports),
    )


def _finish_lines(part: DecidedPart) -> list[Residue]:
    """Remove writes that no store has from their file."""
    try:
        left = remove_waiting(Path(part.place), set(part.names))
        part.done()
    except (DevmemError, OSError) as error:
        return [
            Residue(
                place=part.place, reason=f"it is decided, and is done with the next forgetting: {error}", failed=True
            )
        ]
    return left


def finish_decided(decisions: Path, targets: Sequence[Target]) -> list[Residue]:
    """Finish what earlier processes had decided to forget; return what still cannot be done."""
    left: list[Residue] = []
    for part in decided_parts(decisions):
        if part.kind == "lines":
            left += _finish_lines(part)
            continue
        target = next((each for each in targets if part.belongs_to(each.setup)), None)
        if target is None:
            left.append(
                Residue(place=part.place, reason="it was decided, and the store is declared no more", failed=True)
            )
            continue
        try:
            with target.open() as store:
                _finish(store, part)
        except (DevmemError, OSError) as error:
            left.append(
                Residue(place=target.label, reason=f"it was decided earlier, and cannot be done: {error}", failed=True)
            )
    return left


def _finish(store: MemoryBase, part: DecidedPart) -> None:
    store.purge(_erasing(store, part), vacuum=True)
    part.done()


def finish_in_stores(decisions: Path, stores: Mapping[str, MemoryBase]) -> None:
    """Finish what was decided earlier for stores that are open; what cannot be done is logged and stays decided.

    Stores on collections do their part when they are loaded.
    """
    for part in decided_parts(decisions):
        store = stores.get(part.place)
        if part.kind == "lines":
            for left in _finish_lines(part):
                _LOG.error("%s: %s", left.place, left.reason)
        elif store is not None and part.belongs_to(store.setup):
            try:
                _finish(store, part)
            except (DevmemError, OSError) as error:
                _LOG.error("memory store %r: what was decided to be forgotten is still there: %s", part.place, error)
