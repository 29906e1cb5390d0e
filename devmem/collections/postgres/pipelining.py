"""Statements that are sent without waiting for the results of those before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from devmem.collections.postgres.database import Connection


@contextmanager
def pipelined(connection: Connection) -> Iterator[None]:
    """Send statements at once; a cursor waits for its result when it is to return rows.

    See libpq's pipeline mode. When the context ends, the results that nobody asked for are dropped.

    Raises:
        psycopg.Error: a statement failed whose result nobody asked for, or the connection was lost.
    """
    raised: BaseException | None = None
    try:
        with connection.pipeline():
            try:
                yield
            except BaseException as error:  # noqa: BLE001 - it is raised below
                # psycopg would log, beside what is raised, that it cannot end the pipeline of a lost connection.
                raised = error
    except psycopg.Error:
        if raised is None:
            raise
    if raised is not None:
        raise raised
