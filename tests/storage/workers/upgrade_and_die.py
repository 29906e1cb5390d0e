"""Open a file of an older format, and be killed before item number ITEM of it is upgraded."""

import os
import signal
import sys
from typing import Any

from devmem.storage import SqliteCollection
from devmem.storage.sqlite import rows

path, last = sys.argv[1], int(sys.argv[2])
insert_item = rows.insert_item
written = 0


def insert_or_die(*arguments: Any, **options: Any) -> list[int]:
    global written
    if written == last:
        os.kill(os.getpid(), signal.SIGKILL)
    written += 1
    return insert_item(*arguments, **options)


rows.insert_item = insert_or_die
SqliteCollection(path)
