"""SIGKILL at every point of the commit, the discard and the revert of a run in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Final

from devmem.storage.postgres.collection import PostgresCollection
from tools.postgres_server import USER, PostgresServer
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.faults.statements import dying, traced_postgres
from tools.torture.faults.versions import EMBEDDER, ENDINGS, end_run, judge_run, prepare_run
from tools.torture.results import Plan, Result

_TEMPLATE: Final = "template"


def run(plan: Plan) -> list[Result]:
    """Kill processes that end runs; the server goes on."""
    with closing(PostgresServer()) as server:
        return [_kill_endings(plan, server, ending) for ending in ENDINGS]


def _kill_endings(plan: Plan, server: PostgresServer, ending: str) -> Result:
    result, chance = Result(fault=f"postgres_versions:{ending}"), plan.random("postgres_versions", ending)
    template = f"{_TEMPLATE}_{ending}"
    server.copy_database(USER, template)
    with closing(_opened(server, template)) as collection:
        before, after = prepare_run(collection, ending)
    statements = _count(server, template, ending)
    for kill in range(plan.extent(short=6, full=80)):
        # One more than there are: killed after everything was acknowledged.
        name, at = f"{ending}_{kill}", chance.randrange(statements + 1)
        server.copy_database(template, name)
        with Child(_ends_and_dies(server, name, ending, at)) as child:
            child.finish()
        result.tried += 1
        result.acknowledged += len(before)
        where = f"seed {plan.seed}, {ending} killed before statement {at} of {statements}"
        if child.status == EXIT_FAILED:
            result.fail("unrecovered", f"{where}: it failed")
        with closing(_opened(server, name)) as collection:
            judge_run(collection, ending, before, after, result, where)
        server.drop_database(name)
    return result


def _opened(server: PostgresServer, database: str) -> PostgresCollection:
    return PostgresCollection(server.url(database, store="tortured"), model=EMBEDDER.identity)


def _count(server: PostgresServer, template: str, ending: str) -> int:
    """Return the number of statements that the whole ending runs."""
    name, done = f"{ending}_whole", list[str]()
    server.copy_database(template, name)
    with closing(_opened(server, name)) as collection, traced_postgres(done.append):
        end_run(collection, ending)
    server.drop_database(name)
    return len(done)


def _ends_and_dies(
    server: PostgresServer, database: str, ending: str, at: int
) -> Callable[[Callable[[str], None]], None]:
    def work(_send: Callable[[str], None]) -> None:
        with dying(traced_postgres) as die_at, closing(_opened(server, database)) as collection:
            die_at(at)
            end_run(collection, ending)

    return work
