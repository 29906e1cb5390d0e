"""Reading mem0's memories, page by page and by id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from devmem import Filter, MemoryItem, Scope
from devmem_stores.mem0.backend import Backend, Page
from devmem_stores.mem0.config import Mem0Config
from devmem_stores.mem0.filters import Ids, find_ids, matches, own_filter
from devmem_stores.mem0.items import ID_KEY, Change, Record, to_item
from devmem_stores.mem0.retry import Retrier

_PAGE: Final = 100


class Records:
    """The memories of one store's ids."""

    def __init__(self, config: Mem0Config, backend: Backend, retrier: Retrier) -> None:
        self._config, self._backend, self._retrier = config, backend, retrier

    def ids(self, scope: Scope | None, operation: str) -> Ids:
        """Return the ids whose memories are meant when no agent asks; raises `Mem0ScopeError` when nobody's are."""
        return find_ids(self._config, scope or Scope(), "", operation=operation)

    def can_list(self, scope: Scope) -> bool:
        """Whether the configuration or a scope says whose memories are meant, without which mem0 lists none."""
        config = self._config
        return any((config.user_id, config.agent_id, config.run_id, scope.user, scope.agent))

    def page(self, ids: Ids, number: int, metadata: Mapping[str, str] | None = None) -> Page:
        """Return one page (from 1)."""
        return self._retrier.call("list memories", lambda: self._backend.page(ids, number, _PAGE, metadata))

    def records(self, ids: Ids, metadata: Mapping[str, str] | None = None) -> Iterator[Record]:
        """Return every record, page by page."""
        number = 1
        while True:
            page = self.page(ids, number, metadata)
            yield from page.records
            if not page.more:
                return
            number += 1

    def items(self, where: Filter | None, operation: str) -> Iterator[tuple[Record, MemoryItem]]:
        """Return every item that passes the filter, with its record."""
        where = own_filter(where or Filter(), self._config)
        for record in self.records(self.ids(where.scope, operation)):
            item = to_item(record)
            if matches(item, where):
                yield record, item

    def find(self, item_id: str, scope: Scope | None = None) -> Record | None:
        """Find the record of an item, by mem0's id or by the one that it was imported with."""
        if is_mem0_id(item_id):
            record = self._retrier.call("get", partial(self._backend.get, item_id))
            if record is not None:
                return record
        # Compared again, because a server may not know filters by metadata.
        found = self.records(self.ids(scope, "get"), {ID_KEY: item_id})
        return next((record for record in found if record.marked(ID_KEY) == item_id), None)

    def delete(self, record_ids: Sequence[str]) -> int:
        """Delete records one by one; return their number."""
        return sum(self._retrier.call("delete", partial(self._backend.delete, one)) for one in record_ids)

    def history(self, item_id: str) -> list[Change]:
        """Return what happened to an item; empty when there is no such item."""
        record_id: str | None = item_id
        if not is_mem0_id(item_id):
            record = self.find(item_id)
            record_id = record.id if record else None
        if record_id is None:
            return []
        return self._retrier.call("history", partial(self._backend.history, record_id))


def is_mem0_id(item_id: str) -> bool:
    """Whether an id has the form of mem0's: a UUID with its dashes."""
    try:
        return str(UUID(item_id)) == item_id.lower()
    except ValueError:
        return False
