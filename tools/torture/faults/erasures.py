"""Several erasures at once, beside a writer and erasures that are killed: each counts its own, and nothing is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import devmem
from devmem import ANY, Memory
from devmem.storage.erasure import words_in
from devmem.stores import CollectionMemory
from tools.postgres_server import PostgresServer
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.judge import tokens_of
from tools.torture.results import Plan, Result

_ERASERS: Final = 4
_OF_USER: Final = 3
"""Number of items that a user has when all that is the user's is erased."""
_SECONDS: Final = 600.0
_KILLED: Final = "k"
"""Number, as it were, of the process that is killed again and again."""

Send = Callable[[str], None]


def run(plan: Plan) -> list[Result]:
    """Erase from several processes in a file."""
    path = plan.folder / "erasures.db"
    return [_torture(plan, "erasures", str(path), path.parent, plan.extent(short=2, full=15))]


def run_postgres(plan: Plan) -> list[Result]:
    """Erase from several processes in a PostgreSQL store, whose bytes are the server's."""
    with closing(PostgresServer()) as server:
        rounds = plan.extent(short=1, full=6)
        return [_torture(plan, "postgres_erasures", server.url(store="erasures"), None, rounds)]


def _torture(plan: Plan, fault: str, place: str, folder: Path | None, rounds: int) -> Result:
    result, chance = Result(fault=fault), plan.random(fault)
    with devmem.open(place, embedding=None) as memory:
        memory.add(
            [{"text": f"Shared{number}x all want it gone", "id": f"shared-{number}"} for number in range(rounds)]
        )
    erasers = [Child(partial(_erase, place, folder, str(number), rounds)) for number in range(_ERASERS)]
    said: list[str] = []
    with Child(partial(_add, place)) as writer:
        result.tried += _kill_erasers(place, folder, erasers, rounds, chance, said, result)
        for eraser in erasers:
            said += eraser.finish()
            if eraser.status:
                result.fail("unrecovered", f"seed {plan.seed}: a process that erases ended with {eraser.status}")
        kept = writer.kill()
    result.tried += sum(line.startswith("erased") for line in said)
    result.acknowledged = len(kept)
    for line in said:
        if line.startswith("!"):
            result.fail("wrong", f"seed {plan.seed}: {line}")
    _check_shared(said, rounds, result)
    _check_left(place, folder, kept, said, result)
    return result


def _kill_erasers(
    place: str, folder: Path | None, erasers: list[Child], rounds: int, chance: Random, said: list[str], result: Result
) -> int:
    """Start and kill one more process that erases until the others have ended; return how often it was killed."""
    kills = 0
    while not all(eraser.ended for eraser in erasers):
        with Child(partial(_erase, place, folder, f"{_KILLED}{kills}", _SECONDS)) as victim:
            victim.wait_for_lines(chance.randrange(1, 12), chance.random())
            said += victim.kill()
            kills += 1
            if victim.status == EXIT_FAILED:
                result.fail("unrecovered", f"kill {kills}: the process failed before it was killed")
        for eraser in erasers:
            eraser.wait_for_lines(10 * rounds * 8, 0.01)
    return kills


def _erase(place: str, folder: Path | None, name: str, rounds: float, send: Send) -> None:
    """Add and erase items in each way, and report the number of each; those that are shared belong to all."""
    with devmem.open(place, embedding=None) as memory:
        number = 0
        while number < rounds:
            word = f"Secret{name}x{number}z"
            for erase in (_by_id, _by_receipt, _of_user, _by_text):
                send(f"begun {word}{erase.__name__}")
                if fault := erase(memory, folder, f"{word}{erase.__name__}", name):
                    send(f"! {word}{erase.__name__}: {fault}")
                send(f"erased {word}{erase.__name__}")
            if not name.startswith(_KILLED):
                send(f"shared {number} {memory.forget(f'shared-{number}').items}")
            number += 1


def _by_id(memory: Memory, _folder: Path | None, word: str, _name: str) -> str | None:
    """Forget an item that has versions."""
    for text in ("before", "between", "after"):
        memory.add(f"{text} {word}", id=f"id {word}")
    count = memory.forget(f"id {word}").items
    return None if count == 1 and not memory.history(f"id {word}") else f"{count} forgotten of 1"


def _by_receipt(memory: Memory, folder: Path | None, word: str, _name: str) -> str | None:
    """Erase an item of which an older version alone has the word; the receipt says that nothing is left of it."""
    memory.add(f"before {word}", id=f"id {word}")
    # Erased with it would be its copies, which are items with the same text.
    memory.update(f"id {word}", f"something else of {word[::-1]}")
    receipt = memory.forget(f"id {word}", verify=True)
    if receipt.items != 1:
        return f"{receipt.items} erased of 1"
    # Where others read an older state meanwhile, the receipt says that the log still has it.
    is_false = folder is not None and not receipt.residues and _left_in(folder, [word])
    return "the receipt names no residue, and the word is in the files" if is_false else None


def _of_user(memory: Memory, _folder: Path | None, word: str, name: str) -> str | None:
    """Forget all that is a user's, with what a run of theirs has not committed."""
    user = f"user {name}"
    memory.add([f"{word} {number}" for number in range(_OF_USER)], user=user)
    pending = memory.run(f"run {word}")
    pending.memory.add(f"pending {word}", user=user)
    pending.close()
    count = memory.forget(user=user).items
    return None if count == _OF_USER and memory.count(user=user) == 0 else f"{count} forgotten of {_OF_USER}"


def _by_text(memory: Memory, _folder: Path | None, word: str, _name: str) -> str | None:
    """Erase what has a word, in whatever scope."""
    memory.add(f"one {word}", user="ann")
    memory.add(f"two {word}", agent="writer")
    receipt = memory.forget(matching=word, user=ANY, verify=True)
    return None if receipt.items == 2 else f"{receipt.items} erased of 2"


def _add(place: str, send: Send) -> None:
    """Add items that stay, until the process is killed."""
    with devmem.open(place, embedding=None) as memory:
        for number in range(1_000_000):
            memory.add(f"w0x{number} stays")
            send(f"w0x{number}")


def _check_shared(said: list[str], rounds: int, result: Result) -> None:
    """Check that of all processes that forget an item one counts it."""
    counts: Counter[int] = Counter()
    for line in said:
        if line.startswith("shared"):
            _, number, count = line.split()
            counts[int(number)] += int(count)
    if wrong := {number: counts[number] for number in range(rounds) if counts[number] != 1}:
        result.fail("wrong", f"items were counted by none or by several: {wrong}", len(wrong))


def _check_left(place: str, folder: Path | None, kept: list[str], said: list[str], result: Result) -> None:
    """Open the memory after it all, and compare what is left with what was erased and what was kept."""
    begun = {line.split()[1] for line in said if line.startswith("begun")}
    erased = {line.split()[1] for line in said if line.startswith("erased")}
    with devmem.open(place, embedding=None) as memory:
        assert isinstance(memory.store, CollectionMemory)
        tokens = tokens_of(memory.store)
        if missing := set(kept) - set(tokens):
            result.fail("lost", f"{sorted(missing)[:3]}", len(missing))
        if doubled := [token for token, count in tokens.items() if count > 1]:
            result.fail("doubled", f"{doubled[:3]}", len(doubled))
        if there := [word for word in erased if _is_there(memory, word)]:
            result.fail("leaked", f"{there[:3]} were erased and are there", len(there))
        for word in begun - erased:
            memory.forget(matching=word, user=ANY, verify=True)
            # Of which the word may be in an older version alone.
            memory.forget(f"id {word}")
        if left := [run.run for run in memory.runs() if any(word in run.run for word in erased)]:
            result.fail("leaked", f"the runs {left[:3]} of erased items are there", len(left))
    if folder is not None:
        if found := _left_in(folder, sorted(begun)):
            result.fail("leaked", f"{sorted(found)[:3]} are in the files", len(found))
        own = {Path(place).name, f"{Path(place).name}.faiss"}
        if strangers := {file.name for file in folder.iterdir()} - own:
            result.fail("unrecovered", f"{sorted(strangers)} were left behind")


def _is_there(memory: Memory, word: str) -> bool:
    hits = memory.search(word, user=ANY, limit=5)
    return any(word in hit.text for hit in hits) or bool(memory.history(f"id {word}"))


def _left_in(folder: Path, words: list[str]) -> set[str]:
    return {word for file in folder.iterdir() for word in words_in(file, words)}
