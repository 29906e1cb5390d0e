"""Planning what is forgotten in several stores: the selection, its copies, and what was derived from any of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devmem.collections import Erasing, Unreached
from devmem.errors import DevmemError
from devmem.forgetting.targets import Target
from devmem.forgetting.waiting import WaitingWrites, find_refused, find_rescued, rescued_files, temporary_rescues
from devmem.model.items import MemoryItem
from devmem.stores import MemoryBase


@dataclass(slots=True, kw_only=True)
class TargetPlan:
    """Items of one store that are to be forgotten."""

    target: Target
    items: dict[str, MemoryItem] = field(default_factory=dict)
    """By id; those of which only earlier versions are left are among them."""
    derived: list[str] = field(default_factory=list)
    """Ids of those that were not selected themselves: copies, and what was derived."""
    is_usable: bool = False
    """Whether the store could be looked into."""

    def take(self, items: Iterable[MemoryItem], *, derived: bool) -> list[MemoryItem]:
        """Add items; return those that are new."""
        fresh = [item for item in items if item.id not in self.items]
        self.items.update((item.id, item) for item in fresh)
        self.derived += [item.id for item in fresh] if derived else []
        return fresh


@dataclass(slots=True, kw_only=True)
class ForgettingPlan:
    """Everything that is to be forgotten."""

    targets: list[TargetPlan]
    waiting: list[WaitingWrites] = field(default_factory=list)
    unreached: list[Unreached] = field(default_factory=list)
    """Places that could not be looked into."""

    @property
    def items(self) -> list[MemoryItem]:
        """Every item of every store."""
        return [item for plan in self.targets for item in plan.items.values()]

    @property
    def writes(self) -> int:
        """Number of writes that no store has yet."""
        return sum(len(each.checksums) for each in self.waiting)


def plan_forgetting(targets: Sequence[Target], erasing: Erasing, folders: Sequence[Path]) -> ForgettingPlan:
    """Return what is forgotten with a selection; a store that cannot be opened is named, and the others are planned.

    Args:
        targets: the stores.
        erasing: the selection.
        folders: folders of sessions, in which rescued writes are.
    """
    plan = ForgettingPlan(targets=[TargetPlan(target=target) for target in targets])
    reached = [item for each in plan.targets for item in _select(plan, each, erasing)]
    while reached:
        reached = [item for each in plan.targets for item in _follow(plan, each, reached)]
    _find_waiting(plan, erasing, folders)
    return plan


def _select(plan: ForgettingPlan, each: TargetPlan, erasing: Erasing) -> list[MemoryItem]:
    try:
        with each.target.open() as store:
            found = each.take(store.select_erasable(erasing), derived=False)
    except DevmemError as error:
        plan.unreached.append(Unreached(place=each.target.label, reason=f"it cannot be used: {error}", failed=True))
        return []
    each.is_usable = True
    return found


def _follow(plan: ForgettingPlan, each: TargetPlan, reached: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Add what a store has of copies of some items, and of what was derived from them."""
    if not each.is_usable:
        return []
    try:
        with each.target.open() as store:
            found = [*_copies(store, reached), *store.derived_from([item.id for item in reached])]
            return each.take(found, derived=True)
    except DevmemError as error:
        plan.unreached.append(
            Unreached(place=each.target.label, reason=f"copies cannot be looked for: {error}", failed=True)
        )
        return []


def _copies(store: MemoryBase, items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return a store's items that are copies of others: of the same id, and of the same user."""
    owners: dict[str, set[str | None]] = {}
    for item in items:
        owners.setdefault(item.id, set()).add(item.scope.user)
    found = store.select_erasable(Erasing(ids=tuple(owners)))
    return [item for item in found if item.scope.user in owners[item.id]]


def _find_waiting(plan: ForgettingPlan, erasing: Erasing, folders: Sequence[Path]) -> None:
    journals = dict.fromkeys(each.target.journals for each in plan.targets if each.target.journals is not None)
    looks = [(file, find_rescued) for folder in folders for file in rescued_files(folder)]
    for place, find in [*looks, *((folder, find_refused) for folder in journals)]:
        try:
            found = find(place, erasing)
        except (DevmemError, OSError) as error:
            plan.unreached.append(Unreached(place=str(place), reason=f"it cannot be read: {error}", failed=True))
        else:
            plan.waiting += [found] if found.checksums else []
    _find_temporary(plan, erasing)


def _find_temporary(plan: ForgettingPlan, erasing: Erasing) -> None:
    """Name the files of selected writes in the machine's folder for temporary files, where any workflow's are."""
    for file in temporary_rescues(each.target.setup.name for each in plan.targets):
        try:
            count = len(find_rescued(file, erasing).checksums)
        except (DevmemError, OSError) as error:
            plan.unreached.append(Unreached(place=str(file), reason=f"it cannot be read: {error}", failed=True))
            continue
        if count:
            reason = f"{count:,} selected writes, maybe of another workflow; `devmem import` reads it, then delete it"
            plan.unreached.append(Unreached(place=str(file), reason=reason))
