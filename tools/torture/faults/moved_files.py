"""A new file moved without its log, or to where nothing can be written: it is refused unchanged, or read whole."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Final

import devmem
from devmem import ANY
from devmem.errors import CollectionError
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.results import Plan, Result

_NAME: Final = "notes.db"
_LOG: Final = f"{_NAME}-wal"
_REFUSED: Final = "refused"
_MOST: Final = 30
"""Maximum number of writes before the process waits to be killed."""

Send = Callable[[str], None]
Move = Callable[[Path, Path], None]


def run(plan: Plan) -> list[Result]:
    """Move the files of a store whose process was killed, in each way; then open what came of it."""
    moved, sealed = Result(fault="moved_files"), Result(fault="moved_files:read-only")
    for round_ in range(plan.extent(short=1, full=8)):
        chance = plan.random("moved_files", round_)
        folder = plan.folder / f"origin-{round_}"
        acknowledged = _make(folder, chance)
        for move in _MOVES:
            where = f"seed {plan.seed}, round {round_}, {move.__name__.strip('_')}"
            target = plan.folder / f"{round_}{move.__name__}"
            target.mkdir()
            move(folder, target)
            _judge(target, acknowledged, moved, where)
            _judge_whole_again(folder, target, acknowledged, moved, where)
        for made in (_whole, _without_the_index):
            target = plan.folder / f"sealed-{round_}{made.__name__}"
            _seal(folder, target, made, acknowledged, sealed, f"seed {plan.seed}, round {round_}")
    return [moved, sealed]


def _make(folder: Path, chance: Random) -> set[str]:
    """Have a store written by a process that is killed; return what was acknowledged.

    It is so little that all of it is in the log: what SQLite has moved into the file already is found without that.
    """
    folder.mkdir()
    with Child(partial(_write, folder / _NAME)) as child:
        child.wait_for_lines(chance.randrange(5, 25), 60)
        return set(child.kill())


def _write(path: Path, send: Send) -> None:
    with devmem.open(path, embedding=None) as memory:
        for number in range(_MOST):
            memory.add(f"w{os.getpid()}x{number} is here", user="ann")
            send(f"w{os.getpid()}x{number}")
        signal.pause()


def _whole(source: Path, target: Path) -> None:
    for file in source.iterdir():
        shutil.copy(file, target)


def _without_the_log(source: Path, target: Path) -> None:
    shutil.copy(source / _NAME, target)


def _without_the_index(source: Path, target: Path) -> None:
    """Leave the index of the log behind, which SQLite makes again."""
    shutil.copy(source / _NAME, target)
    shutil.copy(source / _LOG, target)


def _the_log_alone(source: Path, target: Path) -> None:
    shutil.copy(source / _LOG, target)


def _over_an_older_one(source: Path, target: Path) -> None:
    """Copy the file alone over that of a store that was closed well."""
    with devmem.open(target / _NAME, embedding=None) as memory:
        memory.add("an older note")
    shutil.copy(source / _NAME, target)


_MOVES: Final[tuple[Move, ...]] = (
    _whole, _without_the_log, _without_the_index, _the_log_alone, _over_an_older_one,
)  # fmt: skip


def _judge(folder: Path, acknowledged: set[str], result: Result, where: str) -> None:
    """Open the files: they hold all that was acknowledged, or are refused and left as they were."""
    result.tried += 1
    result.acknowledged += len(acknowledged)
    before = _digests(folder)
    found, status = _read(folder / _NAME)
    if status:
        result.fail("unrecovered", f"{where}: an error that is not devmem's own")
    elif found == {_REFUSED}:
        if (after := _digests(folder)) != before:
            result.fail("wrong", f"{where}: it was refused, and the files were changed: {before.keys() ^ after.keys()}")
    elif missing := acknowledged - found:
        result.fail("lost", f"{where}: it opens with {len(found)} items, without {len(missing)} others")


def _judge_whole_again(source: Path, target: Path, acknowledged: set[str], result: Result, where: str) -> None:
    """Copy the missing files to where the file was moved: everything is there."""
    for file in target.iterdir():
        file.unlink()
    _whole(source, target)
    found, status = _read(target / _NAME)
    # One more may be there, whose write was not acknowledged yet.
    if status or acknowledged - found:
        result.fail("lost", f"{where}: with its log again {len(acknowledged - found)} items are missing, {status}")


def _digests(folder: Path) -> dict[str, str]:
    """Return the hash of each file; SQLite may touch the index of the log, which is no content."""
    files = [file for file in folder.iterdir() if not file.name.endswith("-shm")]
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in files}


def _read(path: Path) -> tuple[set[str], int | None]:
    """Open a file in another process; return the words of its items, or that it was refused, and the exit code."""

    def read(send: Send) -> None:
        try:
            with devmem.open(path, embedding=None) as memory:
                texts = [record.text for record in memory.list(10**6, user=ANY)]
                hits = {hit.text for hit in memory.search("here", user=ANY, limit=5)}
        except CollectionError:
            send(_REFUSED)
            return
        if not hits <= set(texts):
            raise AssertionError(f"a search finds others: {hits}")
        for text in texts:
            send(text.split()[0])

    with Child(read) as child:
        said = child.finish()
    return set(said), EXIT_FAILED if child.status == EXIT_FAILED else None


def _seal(source: Path, target: Path, move: Move, acknowledged: set[str], result: Result, where: str) -> None:
    """Open a store where nothing can be written: it is searched as it is, and a write is refused."""
    target.mkdir()
    with _read_only(target, partial(move, source)) as is_sealed:
        if not is_sealed:
            return
        result.tried += 1
        result.acknowledged += len(acknowledged)
        before = _digests(target)
        found, status = _read(target / _NAME)
        if status:
            result.fail("unrecovered", f"{where}: an error that is not devmem's own")
        elif found != {_REFUSED} and acknowledged - found:
            result.fail("lost", f"{where}: it opens with {len(found)} of {len(acknowledged)} items")
        if _digests(target) != before:
            result.fail("wrong", f"{where}: the files were changed")


@contextmanager
def _read_only(folder: Path, fill: Callable[[Path], None]) -> Iterator[bool]:
    """Fill a folder and let nobody write there: as root a file system of its own, which the machine may refuse."""
    is_root = os.geteuid() == 0
    if is_root and subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=False).returncode:
        yield False
        return
    try:
        fill(folder)
        if is_root:
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        else:
            for path in [*folder.iterdir(), folder]:
                path.chmod(0o555 if path.is_dir() else 0o444)
        yield True
    finally:
        if is_root:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        else:
            folder.chmod(0o755)
