"""Flipped bits, zeroed blocks and files that were cut off: a store refuses with an error of its own, or goes on.

What SQLite itself cannot tell from what was written, such as a bit within a text, nobody tells.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from devmem import DevmemError
from devmem.stores import MemoryQuery
from tools.torture.children import Child
from tools.torture.results import Plan, Result
from tools.torture.stores import opened, payload, prepare

_ITEMS: Final = 300
"""Enough for an index snapshot to be written."""
_FILES: Final = ("store.db", "store.db.faiss")


def run(plan: Plan) -> list[Result]:
    """Damage copies of a `simple` store's files, each opened in a process of its own."""
    template = prepare(plan.folder / "corrupt", "simple")
    with Child(lambda _: _fill(template)) as child:
        child.finish()
    return [
        _damage_all(plan, template, name, damage)
        for name, damage in (("bit flip", _flip), ("zeroed block", _zero), ("cut off", _cut_off))
    ]


def _fill(folder: Path) -> None:
    with opened(folder) as store:
        for number in range(_ITEMS):
            store.update(payload(f"w0x{number}"))
        # A search builds the indexes, which are written beside the database when the store is closed.
        store.search(MemoryQuery(text="w0x1"))


def _flip(file: Path, chance: Random) -> str:
    data = bytearray(file.read_bytes())
    at, bit = chance.randrange(len(data)), chance.randrange(8)
    data[at] ^= 1 << bit
    file.write_bytes(data)
    return f"bit {bit} of byte {at} of {file.name}"


def _zero(file: Path, chance: Random) -> str:
    data = bytearray(file.read_bytes())
    at = chance.randrange(len(data))
    data[at : at + 512] = bytes(len(data[at : at + 512]))
    file.write_bytes(data)
    return f"512 bytes from {at} of {file.name}"


def _cut_off(file: Path, chance: Random) -> str:
    size = chance.randrange(file.stat().st_size)
    with file.open("r+b") as opened_file:
        opened_file.truncate(size)
    return f"{file.name} cut off at {size}"


def _damage_all(plan: Plan, template: Path, name: str, damage: Callable[[Path, Random], str]) -> Result:
    result = Result(fault=f"corruption: {name}")
    chance = plan.random("corruption", name)
    for trial in range(plan.extent(short=8, full=200)):
        folder = template.with_name("corrupted")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder)
        file = folder / _FILES[0 if chance.random() < 0.8 else 1]
        what = f"seed {plan.seed}, trial {trial}, {damage(file, chance)}"
        with Child(partial(_use, folder)) as child:
            said = child.finish()
        result.tried += 1
        result.acknowledged += _ITEMS
        if child.status:
            result.fail("unrecovered", f"{what}: the process ended with {child.status}")
        for line in said:
            kind, _, note = line.partition(" ")
            result.fail(kind, f"{what}: {note}")
    return result


def _use(folder: Path, send: Callable[[str], None]) -> None:
    """Read, search and write the damaged store; send a line for an error that is not devmem's."""
    try:
        with opened(folder) as store:
            list(store.scan())
            for number in (1, 150, 299):
                store.search(MemoryQuery(text=f"w0x{number}", limit=5))
            store.update(payload("w1x0"))
    except DevmemError:
        return
    except Exception as error:  # noqa: BLE001 - an error that is not devmem's own is the finding
        send(f"unrecovered {type(error).__name__}: {str(error)[:100]}")
