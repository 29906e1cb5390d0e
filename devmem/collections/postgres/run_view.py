"""A store as a pending run sees and changes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from devmem.collections.filter_sql import Sql
from devmem.collections.postgres import rows, writes
from devmem.collections.postgres.claim import check_embeddings, check_store
from devmem.collections.postgres.database import Access, Connection
from devmem.collections.postgres.item_changes import PostgresItemChanges
from devmem.collections.postgres.pending import OF_RUN, RunRecorder
from devmem.collections.postgres.rows import KEPT
from devmem.collections.postgres.runs import PostgresRuns
from devmem.collections.postgres.texts import stored_text
from devmem.collections.postgres.view import PostgresView
from devmem.collections.writing import ItemChanges, WritingCollection
from devmem.config import IndexConfig
from devmem.embedding import PassageEmbeddings

T = TypeVar("T")


class PostgresRunView(WritingCollection, PostgresView):
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

    def _adding(self, operation: Callable[[ItemChanges], T]) -> T:
        """Run an operation in a write transaction, on connections on which `items` means those of the run.

        Raises:
            RunStateError: the run has ended.
        """

        def change(connection: Connection) -> T:
            known = check_store(connection, self.location, self._store)
            self._runs(connection).begin(self._run, self._actor, self._now())
            recorder = RunRecorder(connection, self._store, self._run)
            changes = PostgresItemChanges(
                recorder, self.location, model=self._model_name(), known=known, now=self._now()
            )
            return operation(changes)

        return self._database.write(change)

    def _runs(self, connection: Connection) -> PostgresRuns:
        return PostgresRuns(connection, self._store, self.location)

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Store the embeddings of waiting items, which everybody sees where the items are not the run's own."""
        keys = {rows.key_of(item_id): item_id for item_id in embeddings}
        which: Sql = (f"{OF_RUN} AND operation <> 'forget'", [stored_text(self._run)])

        def store(connection: Connection) -> tuple[int, set[str]]:
            check_embeddings(connection, self.location, self._store, self._model_name(), embeddings.values())
            self._runs(connection).lock(self._run)
            query = f"SELECT id_key FROM versions WHERE store = %s AND {OF_RUN} AND id_key = ANY(%s)"
            found = connection.execute(query, (self._store, stored_text(self._run), list(keys))).fetchall()
            own = {keys[key] for (key,) in found}
            mine = {item_id: embeddings[item_id] for item_id in own}
            return writes.set_embeddings(connection, self._store, mine, KEPT, which), own

        done, own = self._database.write(store)
        others = {item_id: each for item_id, each in embeddings.items() if item_id not in own}
        return done + (self._embed_others(others) if others else 0)
