"""Forgetting records of a memory for good."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Unpack

from devmem.collections import Erasing, Filter
from devmem.memory.boundary import Boundary, ScopeParts, in_scope
from devmem.memory.filters import Values, make_filter
from devmem.memory.times import When
from devmem.memory.versioning import VersionedMemory
from devmem.stores import forgetting
from devmem.stores.forgetting import ForgetReceipt
from devmem.stores.twins import async_twin


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


def erasing_of(boundary: Boundary, ids: Iterable[object], selected: Selected) -> Erasing:
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
    return Erasing(ids=tuple(named) if named else None, where=reach, text=text, run=run)


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
