"""Open an older file, and be killed before statement number AT of one step of its upgrade: upgrade_from_STEP."""

import os
import signal
import sqlite3
import sys
from typing import Any

from devmem.storage import SqliteCollection
from devmem.storage.sqlite import database, schema

path, step, last = sys.argv[1], f"upgrade_from_{sys.argv[2]}", int(sys.argv[3])


class Dying:
    """A connection that kills the process instead of running one of its statements."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection, self._done = connection, 0

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        if self._done == last:
            os.kill(os.getpid(), signal.SIGKILL)
        self._done += 1
        return self._connection.execute(*arguments)

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        return self._connection.executemany(*arguments)


def upgrade_or_die(connection: sqlite3.Connection) -> None:
    upgrade(Dying(connection))


upgrade = vars(schema)[step]
vars(database)[step] = upgrade_or_die
SqliteCollection(path)
