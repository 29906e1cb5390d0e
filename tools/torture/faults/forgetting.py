"""SIGKILL at every point of a forgetting over a workflow with every kind of store: all of it is gone, or nothing.

A point is a statement of any SQLite connection, or an operation on a file.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import devmem
from devmem import load_workflow, open_stores
from tools.forgetting_team import fill_team, left_in_files, make_team, words_of_user
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.results import Plan, Result

USERS: Final = ("ann", "bob")
FILE_EVENTS: Final = frozenset({"open", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate"})


WordsIn = Callable[[Iterable[str]], set[str]]


def run(plan: Plan) -> list[Result]:
    """Kill processes that forget a user."""
    result, chance = Result(fault="forgetting"), plan.random("forgetting")
    template = plan.folder / "template"
    fill_team(make_team(template), USERS, rich=USERS)
    points = _count(template, plan.folder / "whole")
    for kill in range(plan.extent(short=4, full=500)):
        folder, at = plan.folder / f"kill-{kill}", chance.randrange(points)
        shutil.copytree(template, folder)
        with Child(_forgets_and_dies(folder, at)) as child:
            child.finish()
        result.tried += 1
        where = f"seed {plan.seed}, killed at point {at} of {points}"
        if child.status == EXIT_FAILED:
            result.fail("unrecovered", f"{where}: it failed")
        check_forgetting(folder, partial(_words_in, folder), result, where)
        shutil.rmtree(folder)
    return [result]


def check_forgetting(folder: Path, words_in: WordsIn, result: Result, where: str) -> None:
    """Open the workflow after a forgetting that was killed, in a process of its own, and judge what is left.

    Args:
        folder: has the workflow's file, `team.yaml`.
        words_in: returns those of some words that are left in the stores and beside them.
        result: takes what is wrong.
        where: the fault, for the notes.
    """
    with Child(partial(_judge, folder, words_in)) as judge:
        said = judge.finish()
    if judge.status:
        result.fail("unrecovered", f"{where}: the workflow cannot be used")
    for line in said:
        count, _, note = line.partition(" ")
        result.fail(count, f"{where}: {note}")


def _count(template: Path, folder: Path) -> int:
    """Return the number of points of a whole forgetting."""
    shutil.copytree(template, folder)

    def work(send: Callable[[str], None]) -> None:
        points = [0]

        def count() -> None:
            points[0] += 1

        _at_every_point(count)
        devmem.forget(folder / "team.yaml", user=USERS[0])
        send(str(points[0]))

    with Child(work) as child:
        (points,) = child.finish()
    shutil.rmtree(folder)
    return int(points)


def _forgets_and_dies(folder: Path, at: int) -> Callable[[Callable[[str], None]], None]:
    def work(_send: Callable[[str], None]) -> None:
        left = [at]

        def die() -> None:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        _at_every_point(die)
        devmem.forget(folder / "team.yaml", user=USERS[0])

    return work


def _at_every_point(call: Callable[[], None]) -> None:
    """Have a function called before every statement and every operation on a file; for the rest of the process."""
    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:  # noqa: ANN401 - those of `connect`
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(lambda _statement: call())
        return connection

    vars(sqlite3)["connect"] = traced
    sys.addaudithook(lambda event, _arguments: call() if event in FILE_EVENTS else None)


def _judge(folder: Path, words_in: WordsIn, send: Callable[[str], None]) -> None:
    """Open the workflow, as its next run does, and report what is neither whole nor gone."""
    gone, stays = (set(words_of_user(user)) for user in USERS)
    workflow = load_workflow(folder / "team.yaml")
    _check_searches(folder, send, is_forgotten=False)
    left = words_in(gone)
    if left not in (set(), gone):
        send(f"wrong {len(left)} of {len(gone)} words are left")
    devmem.forget(workflow, user=USERS[0])
    if left := words_in(gone):
        send(f"leaked {len(left)} words are left after another try")
    if lost := stays - words_in(stays):
        send(f"lost {len(lost)} words of another user")
    _check_searches(folder, send, is_forgotten=True)


def _words_in(folder: Path, words: Iterable[str]) -> set[str]:
    return {word for found in left_in_files(folder, sorted(words)).values() for word in found}


def _check_searches(folder: Path, send: Callable[[str], None], *, is_forgotten: bool) -> None:
    """Open every store, and report items of the user after everything was forgotten, or in some stores only."""
    with open_stores(load_workflow(folder / "team.yaml")) as stores:
        of_user = {
            name: sum(item.scope.user == USERS[0] for item in store.recent(1000))
            for name, store in stores.items()
            if name != "docs"
        }
    if any(of_user.values()) and (is_forgotten or not all(of_user.values())):
        send(f"wrong items of the user are in {[name for name, count in of_user.items() if count]}")
