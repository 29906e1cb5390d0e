"""Copies of records in the stores of single agents, by the rules of a workflow."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from devmem.config.conversation import CopyRule
from devmem.model.interactions import Interaction
from devmem.recording import CopySource, InteractionStore
from devmem.stores import MemoryBase

_LOG: Final = logging.getLogger(__name__)
_BATCH: Final = 500


class CopyingSink:
    """Records into the global memory, and copies into other stores what their rules admit.

    A store that does not take its copies costs no record: `rebuild_views` makes them up.
    """

    def __init__(self, store: InteractionStore, rules: Sequence[CopyRule], stores: Mapping[str, MemoryBase]) -> None:
        """Take the global memory, the rules, and the stores that these name.

        Raises:
            ValueError: a store that a rule names is not there.
            TypeError: the records of the global memory cannot be copied.
        """
        if not isinstance(store, CopySource):
            raise TypeError("the records of this memory store cannot be copied into others")
        for rule in rules:
            if rule.into not in stores:
                raise ValueError(f"memory store {rule.into!r}, which `conversation.copies` names, was not opened")
        self._store, self._source, self._rules, self._stores = store, store, tuple(rules), stores

    def record(self, interactions: Sequence[Interaction]) -> None:
        """Store records, and their copies.

        Raises:
            DevmemError: the global memory stored nothing; it is tried again later.
        """
        self._store.record(interactions)
        for rule in self._rules:
            try:
                _copy(self._source, interactions, rule, self._stores[rule.into])
            except Exception:  # noqa: BLE001 - a store type may be anyone's code, and the records themselves are stored
                _LOG.exception(
                    "memory store %r lacks copies of recorded interactions; `devmem rebuild-view` adds them", rule.into
                )


def rebuild_view(source: CopySource, rule: CopyRule, into: MemoryBase) -> tuple[int, int]:
    """Copy every record that a rule admits into its store; what is there already is left as it is.

    Returns:
        the number of admitted records, and of those that were missing.

    Raises:
        DevmemError: a store cannot do its part; what was copied stays, and another call continues.
    """
    admitted = missing = 0
    records = source.every_record()
    while some := list(islice(records, _BATCH)):
        done = _copy(source, some, rule, into)
        admitted, missing = admitted + len(done), missing + sum(done)
    return admitted, missing


def _copy(source: CopySource, records: Sequence[Interaction], rule: CopyRule, into: MemoryBase) -> list[bool]:
    """Copy what a rule admits; return for each copy whether it was missing."""
    items = source.copies_of([one for one in records if rule.admits(one)])
    return [bool(outcome) for outcome in into.add(items)] if items else []
