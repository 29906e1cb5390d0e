"""Flipped bits, cut-off and missing files: a store refuses with an error of its own, or returns what was stored."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from devmem import DevmemError, MemoryItem
from devmem.stores import CollectionMemory, MemoryQuery
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
    originals: dict[str, MemoryItem] = {}
    with opened(template) as store:
        originals = {item.id: replace(item, embedding=None) for item in store.scan()}
    damaged = [
        _damage_all(plan, template, originals, name, damage)
        for name, damage in (("bit flip", _flip), ("zeroed block", _zero), ("cut off", _cut_off))
    ]
    return [*damaged, _alter_properties(plan, template)]


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


def _damage_all(
    plan: Plan, template: Path, originals: dict[str, MemoryItem], name: str, damage: Callable[[Path, Random], str]
) -> Result:
    result = Result(fault=f"corruption: {name}")
    chance = plan.random("corruption", name)
    for trial in range(plan.extent(short=8, full=200)):
        folder = template.with_name("corrupted")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder)
        file = folder / _FILES[0 if chance.random() < 0.8 else 1]
        what = f"seed {plan.seed}, trial {trial}, {damage(file, chance)}"
        with Child(lambda send, folder=folder: _read_all(folder, originals, send)) as child:  # type: ignore[misc]
            said = child.finish()
        result.tried += 1
        result.acknowledged += len(originals)
        if child.status:
            result.fail("unrecovered", f"{what}: the process ended with {child.status}")
        for line in said:
            kind, _, note = line.partition(" ")
            result.fail(kind, f"{what}: {note}")
    return result


def _alter_properties(plan: Plan, template: Path) -> Result:
    """Alter one recorded property, as a flipped bit does without harming the file's structure: opening refuses it."""
    result, chance = Result(fault="corruption: altered property"), plan.random("corruption", "property")
    for trial in range(plan.extent(short=8, full=200)):
        folder = template.with_name("altered")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder)
        what = f"seed {plan.seed}, trial {trial}, {_alter(folder / _FILES[0], chance)}"
        with Child(partial(_open, folder)) as child:
            said = child.finish()
        result.tried += 1
        if child.status or said != ["refused"]:
            result.fail("wrong", f"{what}: {said[-1:]} and exit code {child.status}")
    return result


def _alter(file: Path, chance: Random) -> str:
    """Flip one bit of a property's value and return where."""
    with closing(sqlite3.connect(file)) as connection, connection:
        rows = connection.execute("SELECT key, value FROM meta WHERE value IS NOT NULL ORDER BY key").fetchall()
        key, value = chance.choice(rows)
        if isinstance(value, int):
            altered: int | str = value ^ (1 << chance.randrange(31))
        else:
            at = chance.randrange(len(value))
            altered = value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]
        connection.execute("UPDATE meta SET value = ? WHERE key = ?", (altered, key))
    return f"{key} = {altered!r} instead of {value!r}"


def _open(folder: Path, send: Callable[[str], None]) -> None:
    try:
        with opened(folder):
            send("opened")
    except DevmemError:
        send("refused")


def _read_all(folder: Path, originals: dict[str, MemoryItem], send: Callable[[str], None]) -> None:
    """Read and search the damaged store; send a line for each answer that is neither right nor an error of devmem."""
    try:
        with opened(folder) as store:
            found = {item.id: replace(item, embedding=None) for item in store.scan()}
            hits = [store.search(MemoryQuery(text=f"w0x{number}", top_k=5)) for number in (1, 150, 299)]
            reported = _reported(store)
    except DevmemError:
        return
    except Exception as error:  # noqa: BLE001 - an error that is not devmem's own is the finding
        send(f"unrecovered {type(error).__name__}: {str(error)[:100]}")
        return
    altered = [name for name, item in found.items() if originals.get(name) != item]
    altered += [hit.item.id for one in hits for hit in one if originals.get(hit.item.id) != hit.item]
    if altered:
        send(f"wrong {len(altered)} altered items, {altered[0]}")
    if len(found) < len(originals) and not reported:
        send(f"lost {len(originals) - len(found)} items without a word")


def _reported(store: CollectionMemory) -> bool:
    """Whether the store says that rows are damaged."""
    return bool(getattr(store.collection.info(), "damaged", 0))
