"""A store as a pending run sees and changes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from devmem.collections.deletion import check_deletion
from devmem.collections.filter_sql import Sql
from devmem.collections.postgres import rows, runs, writes
from devmem.collections.postgres.adding import BatchWriter
from devmem.collections.postgres.claim import check_embeddings, check_store
from devmem.collections.postgres.database import Access, Connection
from devmem.collections.postgres.pending import OF_RUN, RunRecorder
from devmem.collections.postgres.rows import KEPT
from devmem.collections.postgres.texts import stored_text
from devmem.collections.postgres.view import PostgresView
from devmem.collections.prepared import PreparedItem
from devmem.collections.protocol import Unique
from devmem.config import IndexConfig
from devmem.embedding import PassageEmbeddings
from devmem.model.items import MemoryItem
from devmem.model.results import WriteOutcome
from devmem.search.filters import Filter

T = TypeVar("T")


class PostgresRunView(PostgresView):
    """The items that a pending run sees; what it writes is seen by others from its commit on.

    What others commit meanwhile is seen at once, except for items that the run has changed itself.
    """

    def __init__(
        self,
        access: Access,
        store: int,
        *,
        index: IndexConfig,
        clock: Callable[[], float],
        model_name: Callable[[], str | None],
        embed_others: Callable[[Mapping[str, PassageEmbeddings]], int],
        run: str,
        actor: str | None,
    ) -> None:
        """Take what the view reads and how it writes; nothing is written yet.

        Args:
            access: shows what the run sees.
            store: number of the store.
            index: how vectors are searched.
            clock: current time in seconds since the epoch.
            model_name: returns the name of the model that queries are embedded with.
            embed_others: stores embeddings of items that are not the run's own.
            run: id of the run.
            actor: who makes its changes.
        """
        super().__init__(
            access, store, index=index, clock=clock, model_name=model_name, state=f"run {run!r} is pending"
        )
        self._embed_others, self._run, self._actor = embed_others, run, actor

    def _change(self, operation: Callable[[RunRecorder], T]) -> T:
        """Run an operation in a write transaction in which `items` means those of the run.

        Raises:
            RunStateError: the run has ended.
        """

        def change(connection: Connection) -> T:
            check_store(connection, self.location, self._store)
            runs.begin(connection, self._store, self.location, self._run, self._actor, self._now())
            return operation(RunRecorder(connection, self._store, self._run))

        return self._database.write(change)

    def add(
        self,
        items: Sequence[MemoryItem | PreparedItem],
        *,
        unique: Unique = Unique.ID,
        expected: Mapping[str, str | None] | None = None,
    ) -> list[WriteOutcome]:
        """Store the items in the run, all or none of them."""
        if not items:
            return []
        prepared = [PreparedItem.of(item) for item in items]

        def add(recorder: RunRecorder) -> list[WriteOutcome]:
            made = [item.embeddings for item in prepared]
            has_model = check_embeddings(recorder.connection, self.location, self._store, self._model_name(), made)
            writer = BatchWriter(recorder, has_model=has_model, now=self._now())
            return writer.add(prepared, unique, expected or {})

        return self._change(add)

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Delete the items stored last in the run, and return them."""
        return self._change(lambda recorder: writes.pop(recorder, count, where or Filter(), self._now()))

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items in the run."""
        check_deletion(ids, where)
        return self._change(lambda recorder: writes.delete(recorder, ids, where, self._now()))

    def clear(self) -> int:
        """Delete everything in the run."""
        return self._change(lambda recorder: writes.delete(recorder, None, None, self._now()))

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest items, and those stored before a time, in the run."""
        return self._change(lambda recorder: writes.trim(recorder, keep, stored_before, self._now()))

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Store the embeddings of waiting items, which everybody sees where the items are not the run's own."""
        keys = {rows.key_of(item_id): item_id for item_id in embeddings}
        which: Sql = (f"{OF_RUN} AND operation <> 'forget'", [stored_text(self._run)])

        def store(connection: Connection) -> tuple[int, set[str]]:
            check_embeddings(connection, self.location, self._store, self._model_name(), embeddings.values())
            runs.lock_run(connection, self._store, self._run)
            query = f"SELECT id_key FROM versions WHERE store = %s AND {OF_RUN} AND id_key = ANY(%s)"
            found = connection.execute(query, (self._store, stored_text(self._run), list(keys))).fetchall()
            own = {keys[key] for (key,) in found}
            mine = {item_id: embeddings[item_id] for item_id in own}
            return writes.set_embeddings(connection, self._store, mine, KEPT, which), own

        done, own = self._database.write(store)
        others = {item_id: each for item_id, each in embeddings.items() if item_id not in own}
        return done + (self._embed_others(others) if others else 0)
