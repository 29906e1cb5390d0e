"""Ways by which erased texts come back: after each of them a search for every erased text must find nothing.

Each store has as many texts that stay as texts that are erased, which show that nothing else is kept out.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

import devmem
from devmem.errors import NotStoredError
from devmem.memory.memory import Memory
from devmem.storage.sqlite import backup as backups
from devmem.transfer.copy import copy_items
from tools.postgres_server import PostgresServer
from tools.torture.results import Plan, Result

_USER: Final = "ann"
_BATCH: Final = 200
_PLACES: Final = ("file", "memory", "postgres")


def run(plan: Plan) -> list[Result]:
    """Erase texts with tombstones in each place, then try every way back."""
    count = plan.extent(short=100, full=2_000)
    with closing(PostgresServer()) as server:
        return [_in_place(plan, place, count, server) for place in _PLACES]


def _in_place(plan: Plan, place: str, count: int, server: PostgresServer) -> Result:
    result, chance = Result(fault=f"tombstones ({place})"), plan.random("tombstones", place)
    folder = plan.folder / f"tombstones-{place}"
    (folder / "docs").mkdir(parents=True)
    gone, stay = _texts(chance, count, "gone"), _texts(chance, count, "stays")
    where = {"file": "notes.db", "memory": ":memory:", "postgres": server.url(store="tombstones")}[place]
    team = _write_team(folder, where)
    with devmem.open(folder / "before.db", embedding=None) as before:
        _add(before, gone | stay)
    with devmem.open(f"{team}#notes") as notes:
        _add(notes, gone | stay)
        if place == "file":
            backups.back_up(folder / "notes.db", folder / "saved.db")
        receipt = notes.forget(*_ids(gone), tombstone=True, verify=True)
        if receipt.items != count or receipt.tombstones != count:
            result.fail("wrong", f"{receipt.items} erased, {receipt.tombstones} kept out, of {count}")
        for way in (_again, _written_otherwise, _within_others, _copied(folder / "before.db"), _summarized):
            way(notes, gone)
            _judge(result, notes, gone, stay, f"{place}: {getattr(way, '__name__', 'copied')}")
    if place == "file":
        _restored(result, team, gone, stay)
    if place != "memory":
        _indexed(result, folder, gone, stay)
    shutil.rmtree(folder)
    return result


def _texts(chance: Random, count: int, kind: str) -> dict[str, str]:
    """Return texts by id, each with a word that no other has."""
    things = ("door code", "home address", "diagnosis", "salary", "passport number", "nickname", "门牌号码", "体检结果")
    return {
        f"{kind}-{n}": f"The {chance.choice(things)} of case {kind}{n} is {chance.randrange(10**9)}. "
        f"It was told to the clerk of office {kind}{n} in confidence."
        for n in range(count)
    }


def _ids(texts: dict[str, str]) -> list[str]:
    return list(texts)


def _write_team(folder: Path, place: str) -> Path:
    docs = place if "://" in place else "docs.db"
    path = "" if place == ":memory:" else f"memory_path: '{place}'"
    (folder / "team.yaml").write_text(
        f"memory:\n"
        f"  - {{name: notes, type: simple, config: {{{path}}}}}\n"
        f"  - {{name: docs, type: file, config: {{index_path: '{docs.replace('tombstones', 'docs')}', "
        f"file_sources: [{{path: docs}}]}}}}\n",
        encoding="utf-8",
    )
    return folder / "team.yaml"


def _add(memory: Memory, texts: dict[str, str]) -> None:
    pairs = list(texts.items())
    for start in range(0, len(pairs), _BATCH):
        part = [{"text": text, "id": name} for name, text in pairs[start : start + _BATCH]]
        try:
            memory.add(part, user=_USER)
        except NotStoredError:
            continue


def _again(notes: Memory, gone: dict[str, str]) -> None:
    _add(notes, gone)
    _add(notes, {f"new-{name}": text for name, text in gone.items()})


def _written_otherwise(notes: Memory, gone: dict[str, str]) -> None:
    _add(notes, {f"upper-{name}": f"  {text.upper().replace('. ', '!!  ')} " for name, text in gone.items()})
    _add(notes, {f"plain-{name}": text.replace(".", ";").replace(" is ", ",  is\n") for name, text in gone.items()})


def _within_others(notes: Memory, gone: dict[str, str]) -> None:
    for name, text in gone.items():
        first, second = text.split(". ")
        _add(notes, {f"in-{name}": f"Monday, by post: {first}! Greetings.", f"last-{name}": f"P. S.\n- {second}"})


def _copied(file: Path) -> Callable[[Memory, dict[str, str]], None]:
    def copied(notes: Memory, gone: dict[str, str]) -> None:  # noqa: ARG001 - all of the source
        with devmem.open(file, embedding=None) as before:
            copy_items(before.store, notes.store, lambda _: None)

    return copied


def _summarized(notes: Memory, gone: dict[str, str]) -> None:
    """Store summaries that a model wrote of what it still remembers."""
    summaries = {f"told-{name}": f"Summary of the week. {text} That was all." for name, text in gone.items()}
    _add(notes, summaries)


def _restored(result: Result, team: Path, gone: dict[str, str], stay: dict[str, str]) -> None:
    """Restore a backup over the file, then put it in the place of the deleted file by hand."""
    file, saved = team.parent / "notes.db", team.parent / "saved.db"
    backups.restore(saved, file, force=True)
    backups.erase_again(file)
    for how in ("restored", "by hand"):
        if how == "by hand":
            file.unlink()
            shutil.copy(saved, file)
        with devmem.open(f"{team}#notes") as notes:
            _judge(result, notes, gone, stay, how)


def _indexed(result: Result, folder: Path, gone: dict[str, str], stay: dict[str, str]) -> None:
    """Erase the chunks of documents, change the documents, and index the folder again from nothing."""
    for name, text in {**gone, **stay}.items():
        (folder / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    with devmem.open(f"{folder / 'team.yaml'}#docs") as docs:
        chunks = [record.id for record in docs.list(4 * len(gone)) if "case gone" in record.text]
        docs.forget(*chunks, tombstone=True)
    for name, text in gone.items():
        (folder / "docs" / f"{name}.md").write_text(f"# Notes\n\n{text}\n", encoding="utf-8")
    with devmem.open(f"{folder / 'team.yaml'}#docs") as docs:
        docs.store.index(rebuild=True)  # type: ignore[attr-defined]
        _judge(result, docs, gone, stay, "indexed", user=None)


def _judge(
    result: Result, memory: Memory, gone: dict[str, str], stay: dict[str, str], way: str, user: str | None = _USER
) -> None:
    """Search for every erased text, and count those that stay."""
    result.tried += len(gone)
    for name, text in gone.items():
        found = memory.search(text.split(". ")[0], user=user, limit=3)
        if back := [hit.text for hit in found if f"{name.replace('-', '')} " in hit.text.casefold()]:
            result.fail("leaked", f"{way}: {back[0][:80]!r} is back")
    there = sum("stays" in record.text for record in memory.list(8 * len(stay), user=user))
    result.acknowledged += len(stay)
    if there < len(stay):
        result.fail("lost", f"{way}: {len(stay) - there} texts that were not erased are gone", len(stay) - there)
