"""Changing the current items of a SQLite file by versions; see `Committer`."""

from __future__ import annotations

from devmem.collections.prepared import PreparedItem
from devmem.collections.recorded import Ending
from devmem.collections.sqlite import rows
from devmem.collections.sqlite.integrity import DamagedRows
from devmem.collections.sqlite.pending import OF_RUN
from devmem.collections.sqlite.recorder import CurrentRecorder
from devmem.errors import CollectionDamagedError
from devmem.model.indexed_fields import embedded_hash, has_text
from devmem.model.versions import Operation


class SqliteCommitter:
    """Ends current items and puts versions in their place."""

    def __init__(self, recorder: CurrentRecorder, location: str, damaged: DamagedRows) -> None:
        """Take the recorder of a write transaction, the place of the file, and its rows that cannot be read."""
        self._recorder, self._location, self._damaged = recorder, location, damaged

    @property
    def at(self) -> int:
        """Recorded time of the transaction."""
        return self._recorder.at

    def hold(self, run: str) -> None:
        """Do nothing: one transaction writes at a time."""

    def end(self, row: int, ending: Ending) -> None:
        """Delete a current item, which stays as a version where these are kept."""
        self._recorder.end("row = ?", [row], ending)

    def put_back(self, version: int, operation: Operation, *, run: str, actor: str | None) -> None:  # noqa: ARG002 - the recorder's run
        """Insert the item of a version as a current one, with its embeddings."""
        connection = self._recorder.connection
        query = "SELECT row, CAST(body AS BLOB), body_checksum FROM versions WHERE row = ?"
        item = rows.item_from_row(self._damaged, *connection.execute(query, (version,)).fetchone())
        if item is None:
            reason = f"version {version} is damaged; nothing was changed: restore a backup."
            raise CollectionDamagedError(self._location, reason)
        embeddings = rows.read_embeddings_of_row(connection, version, embedded_hash(item))
        prepared = PreparedItem.of(item)
        if embeddings is not None and len(embeddings.vectors) not in (1, len(prepared.passages)):
            # That of a passage is damaged: all are made again.
            embeddings = None
        waiting = embeddings is None and has_text(item)
        passages = self._recorder.insert(prepared, item, waiting=waiting, operation=operation, actor=actor)
        if embeddings is not None:
            rows.insert_embeddings(connection, passages, embeddings)

    def remove_pending(self, run: str) -> None:
        """Remove the versions of a run; their attachments are those of the current items."""
        self._recorder.connection.execute(f"DELETE FROM versions WHERE {OF_RUN}", (rows.sql_text(run),))

    def keeps_since(self, at: int) -> bool:
        """Whether every version that ended at a recorded time, or later, is still kept."""
        return self._recorder.keeps_since(at)
