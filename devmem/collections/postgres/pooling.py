"""Connection poolers between this process and the server, such as PgBouncer: a connection has to keep its session.

Its session holds the schema, the tenant, limits of time, the views of earlier states, and locks. A pooler that hands
each transaction to another session (`pool_mode = transaction`) would mix those of several clients.
"""

from __future__ import annotations

from contextlib import closing

from devmem.collections.postgres.database import Access, Connection, connect
from devmem.errors import CollectionError


def refuse_shared_sessions(connection: Connection, access: Access) -> None:
    """Refuse a pooler that gives the session of an idle connection to another one.

    One that is busy may give another session this time: `check_session` finds that later.

    Raises:
        CollectionError: it does.
    """
    if connection.mark is None:
        return
    with closing(connect(access)) as other:
        if other.found_mark == connection.mark:
            raise _shared(str(access.location))


def check_session(connection: Connection, location: str) -> None:
    """Make sure that a transaction, as its first statement, runs in the session of its connection.

    Raises:
        CollectionError: it runs in another one.
    """
    if connection.mark is None:
        return
    ((found,),) = connection.execute("SELECT current_setting('devmem.session', true)").fetchall()
    if found != connection.mark:
        raise _shared(location)


def _shared(location: str) -> CollectionError:
    return CollectionError(
        location,
        "a connection pooler runs the transactions of several clients in one session (`pool_mode = transaction` of "
        "PgBouncer): use `pool_mode = session`, or the server's own address.",
    )
