"""Changing the current items of a PostgreSQL store by versions; see `Committer`."""

from __future__ import annotations

from typing import Final

from devmem.collections.postgres import rows
from devmem.collections.postgres.database import composed
from devmem.collections.postgres.inserting import new_rows
from devmem.collections.postgres.recorder import CurrentRecorder
from devmem.collections.postgres.rows import CURRENT, KEPT
from devmem.collections.postgres.runs import PostgresRuns
from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.texts import stored_text
from devmem.collections.recorded import Ending
from devmem.model.versions import Operation

_PARTS: Final = (
    (CURRENT.passages, KEPT.passages, "term_hashes, term_counts, term_length"),
    (CURRENT.vectors, KEPT.vectors, "vector"),
    (CURRENT.tokens, KEPT.tokens, "codes"),
)


class PostgresCommitter:
    """Ends current items and puts versions in their place."""

    def __init__(self, recorder: CurrentRecorder, runs: PostgresRuns) -> None:
        """Take the recorder and the runs of a write transaction."""
        self._recorder, self._runs = recorder, runs

    @property
    def at(self) -> int:
        """Recorded time of the transaction."""
        return self._recorder.at

    def hold(self, run: str) -> None:
        """Lock the items that a run changed; who adds one of the ids first is found by its unique index."""
        keys = self._runs.touched(run)
        locked = "SELECT row FROM items WHERE store = %s AND id_key = ANY(%s) ORDER BY row FOR UPDATE"
        self._recorder.connection.execute(locked, (self._recorder.store, keys))
        self._recorder.tick(keys)

    def end(self, row: int, ending: Ending) -> None:
        """Delete a current item, which stays as a version where these are kept."""
        self._recorder.end("row = %s", [row], ending)

    def put_back(self, version: int, operation: Operation, *, run: str, actor: str | None) -> None:
        """Insert the item of a version as a current one with all that belongs to it; the version stays."""
        connection = self._recorder.connection
        (row,) = new_rows(connection, 1)
        values = {"store": self._recorder.store, "row": row, "version": version}
        origin = {"operation": operation.value, "run": stored_text(run), "actor": stored_text(actor), "at": self.at}
        connection.execute(
            composed(
                f"INSERT INTO items(store, row, {rows.ITEM_COLUMNS}, operation, change_run, change_actor, "
                f"recorded_from) SELECT store, %(row)s, {rows.ITEM_COLUMNS}, %(operation)s, %(run)s, %(actor)s, %(at)s "
                "FROM versions WHERE store = %(store)s AND row = %(version)s"
            ),
            values | origin,
        )
        for current, kept, columns in _PARTS:
            connection.execute(
                composed(
                    f"INSERT INTO {current}(store, passage, {columns}) "
                    f"SELECT store, passage + ((%(row)s::bigint - %(version)s::bigint) << {PASSAGE_BITS}), {columns} "
                    f"FROM {kept} WHERE store = %(store)s AND passage >= %(version)s::bigint << {PASSAGE_BITS} "
                    f"AND passage < (%(version)s::bigint + 1) << {PASSAGE_BITS}"
                ),
                values,
            )
        connection.execute(
            "INSERT INTO attachment_uses(store, sha256, row) SELECT store, sha256, %(row)s FROM attachment_uses "
            "WHERE store = %(store)s AND row = %(version)s",
            values,
        )

    def remove_pending(self, run: str) -> None:
        """Remove the versions of a run; what the current items use stays."""
        self._runs.remove_pending(run)

    def keeps_since(self, at: int) -> bool:
        """Whether every version that ended at a recorded time, or later, is still kept."""
        return self._recorder.keeps_since(at)
