"""SIGKILL at every point of a forgetting over stores in a PostgreSQL database: all of it is gone, or nothing.

A point is a statement that is sent to the server, or an operation on a file beside the database. After every other kill
another machine opens the stores first, which has nothing but the workflow and the documents.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import psycopg

import devmem
from devmem import load_workflow, open_stores
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.schema import STORE_TABLES
from tools.forgetting_team import fill_team, left_in_files, make_team, write_team
from tools.postgres_server import USER, PostgresServer
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.faults.forgetting import FILE_EVENTS, USERS, check_forgetting
from tools.torture.faults.statements import dying, traced_postgres
from tools.torture.results import Plan, Result

_TEMPLATE: Final = "team"


def run(plan: Plan) -> list[Result]:
    """Kill processes that forget a user; the server goes on."""
    result, chance = Result(fault="postgres_forgetting"), plan.random("postgres_forgetting")
    with closing(PostgresServer()) as server:
        server.copy_database(USER, _TEMPLATE)
        template = plan.folder / "template"
        fill_team(make_team(template, server.url(_TEMPLATE)), USERS, rich=USERS)
        points = _count(server, template, plan.folder / "whole")
        for kill in range(plan.extent(short=4, full=60)):
            folder, at = plan.folder / f"kill-{kill}", chance.randrange(points)
            url = _copy(server, template, folder)
            with Child(_forgets_and_dies(folder, at)) as child:
                child.finish()
            result.tried += 1
            where = f"seed {plan.seed}, killed at point {at} of {points}"
            if child.status == EXIT_FAILED:
                result.fail("unrecovered", f"{where}: it failed")
            if kill % 2:
                _open_elsewhere(plan.folder / "elsewhere", folder / "docs", url, result, where)
            check_forgetting(folder, partial(_words_in, url, folder), result, where)
            server.drop_database(folder.name)
            shutil.rmtree(folder)
    return [result]


def _copy(server: PostgresServer, template: Path, folder: Path) -> str:
    """Copy the workflow, what is beside its database, and the database; return the URL of that."""
    server.copy_database(_TEMPLATE, folder.name)
    shutil.copytree(template, folder)
    url = server.url(folder.name)
    write_team(folder, url)
    return url


def _open_elsewhere(folder: Path, documents: Path, url: str, result: Result, where: str) -> None:
    """Open the stores as another machine does, which finishes what the databases know of the decision."""

    def work(_send: Callable[[str], None]) -> None:
        with open_stores(load_workflow(folder / "team.yaml")):
            return

    shutil.copytree(documents, folder / "docs")
    write_team(folder, url)
    with Child(work) as child:
        child.finish()
    if child.status:
        result.fail("unrecovered", f"{where}: another machine cannot use the stores")
    shutil.rmtree(folder)


def _count(server: PostgresServer, template: Path, folder: Path) -> int:
    """Return the number of points of a whole forgetting."""
    _copy(server, template, folder)

    def work(send: Callable[[str], None]) -> None:
        points: list[str] = []
        with _traced_with_files(points.append):
            devmem.forget(folder / "team.yaml", user=USERS[0])
        send(str(len(points)))

    with Child(work) as child:
        (points,) = child.finish()
    return int(points)


@contextmanager
def _traced_with_files(call: Callable[[str], None]) -> Iterator[None]:
    """Have a function called before every statement and every operation on a file; the latter permanently."""
    sys.addaudithook(lambda event, _arguments: call(event) if event in FILE_EVENTS else None)
    with traced_postgres(call):
        yield


def _forgets_and_dies(folder: Path, at: int) -> Callable[[Callable[[str], None]], None]:
    def work(_send: Callable[[str], None]) -> None:
        with dying(_traced_with_files) as die_at:
            die_at(at)
            devmem.forget(folder / "team.yaml", user=USERS[0])

    return work


def _words_in(url: str, folder: Path, words: Iterable[str]) -> set[str]:
    """Return those of some words that any row of the database has, or a file beside it."""
    wanted = set(words)
    found = {word for left in left_in_files(folder, sorted(wanted)).values() for word in left}
    with psycopg.connect(Location.parse(url).conninfo, autocommit=True) as connection:
        connection.execute("SET bytea_output = 'escape'")
        for table in STORE_TABLES:
            rows = connection.execute(f"SELECT kept::text FROM devmem.{table} AS kept").fetchall()
            text = "\n".join(row for (row,) in rows)
            found |= {word for word in wanted - found if word in text}
    return found
