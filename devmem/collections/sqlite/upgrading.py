"""Files of older formats, brought up to date when they are opened."""

from __future__ import annotations

import logging
import sqlite3
from typing import Final

from devmem.collections.sqlite import rows
from devmem.collections.sqlite.schema import make_tables
from devmem.text.analysis import ANALYSIS_VERSION

_LOG: Final = logging.getLogger(__name__)
_OF_FORMAT_1: Final = (
    "DROP TRIGGER count_up",
    "DROP TRIGGER count_down",
    "DROP INDEX items_by_content",
    "DROP INDEX items_by_scope",
    "DROP INDEX items_by_session",
    "DROP INDEX items_expiring",
    "DROP INDEX items_waiting",
    "DROP TABLE vectors",
    "ALTER TABLE items RENAME TO items_of_format_1",
)


def upgrade_from_1(connection: sqlite3.Connection, location: str) -> None:
    """Turn a file of format 1, which knew no passages, into one of today, within the caller's transaction.

    Items keep their rows and their order; each waits for the embeddings of its passages.
    """
    for statement in _OF_FORMAT_1:
        connection.execute(statement)
    make_tables(connection)
    connection.execute("UPDATE meta SET value = 0 WHERE key = 'count'")
    old = connection.cursor()
    for row, body in old.execute("SELECT row, body FROM items_of_format_1 ORDER BY row"):
        item = rows.from_row(body)
        rows.insert_item(connection, item, waiting=bool(item.content_summary.strip()), row=row)
    connection.execute("DROP TABLE items_of_format_1")
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
    connection.execute("UPDATE meta SET value = ? WHERE key = 'analysis'", (ANALYSIS_VERSION,))
    _LOG.warning("%s: was of an older format and is now of today's; its items are embedded anew.", location)
