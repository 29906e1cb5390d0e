"""Putting the item of a version back among the current ones."""

from __future__ import annotations

from typing import Final

from devmem.collections.postgres import rows
from devmem.collections.postgres.database import composed
from devmem.collections.postgres.inserting import Origin, new_rows
from devmem.collections.postgres.recorder import CurrentRecorder
from devmem.collections.postgres.rows import CURRENT, KEPT
from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.texts import stored_text

_PARTS: Final = (
    (CURRENT.passages, KEPT.passages, "term_hashes, term_counts, term_length"),
    (CURRENT.vectors, KEPT.vectors, "vector"),
    (CURRENT.tokens, KEPT.tokens, "codes"),
)


def put_back(recorder: CurrentRecorder, version: int, origin: Origin) -> None:
    """Insert the item of a version as a current one, stored last, with all that belongs to it; the version stays."""
    connection = recorder.connection
    (row,) = new_rows(connection, 1)
    values = {"store": recorder.store, "row": row, "version": version}
    connection.execute(
        composed(
            f"INSERT INTO items(store, row, {rows.ITEM_COLUMNS}, operation, change_run, change_actor, recorded_from) "
            f"SELECT store, %(row)s, {rows.ITEM_COLUMNS}, %(operation)s, %(run)s, %(actor)s, %(at)s "
            "FROM versions WHERE store = %(store)s AND row = %(version)s"
        ),
        values
        | {
            "operation": origin.operation,
            "run": stored_text(origin.run),
            "actor": stored_text(origin.actor),
            "at": origin.time_or_base,
        },
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
