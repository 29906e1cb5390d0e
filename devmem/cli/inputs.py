"""Options and helpers for reading items out of a store: which, in which order, and into which file.

A unique beginning stands for an id, as in git.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from devmem.cli.declaring import option
from devmem.cli.targets import StoreAddress
from devmem.cli.terminal import Terminal
from devmem.errors import CommandError
from devmem.model.conditions import Order
from devmem.text.analysis import shorten
from devmem.text.display import one_line
from devmem.text.files import replace_file

if TYPE_CHECKING:
    from devmem.config.workflow import Workflow
    from devmem.model.filters import Filter
    from devmem.model.items import MemoryItem
    from devmem.stores.memory import MemoryBase

_LEAST: Final = 4
"""Characters of the shortest beginning that is looked for."""
_SHOWN: Final = 5
"""Maximum number of candidates that are listed."""
_SNIPPET: Final = 40
"""Characters of a candidate's text."""
_RUNS: Final = 10_000
"""Number of the newest runs that are looked through."""
_UNDOING: Final = re.compile(r"((?:revert of )+[0-9a-f]{8})[0-9a-f]{24}")
"""Id of a run that undoes one whose id was generated."""


def full_ids(store: MemoryBase, given: Sequence[str] | None) -> list[str]:
    """Return the ids of a store's items for ids or their beginnings; what begins no id stays unchanged.

    Raises:
        CommandError: several ids begin so.
    """
    return _resolved(_candidates(store, given)) if given else []


def _candidates(store: MemoryBase, given: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the items that each id or beginning may stand for, with their texts."""
    exact = {item.id for item in store.get(given)}
    found: dict[str, dict[str, str]] = {each: {each: ""} if each in exact else {} for each in given}
    if short := [each for each in given if each not in exact and len(each) >= _LEAST]:
        from devmem.stores.abilities import every_item
        from devmem.stores.archiving import every_archived

        for item in chain(every_item(store), every_archived(store)):
            for each in short:
                if item.id.startswith(each):
                    found[each][item.id] = shorten(one_line(item.content_summary), _SNIPPET)
    return found


def _resolved(found: Mapping[str, Mapping[str, str]]) -> list[str]:
    return list(dict.fromkeys(_only(each, candidates, "item") for each, candidates in found.items()))


def full_id(store: MemoryBase, given: str) -> str:
    """Return the id of one item; see `full_ids`."""
    (found,) = full_ids(store, [given])
    return found


def full_ids_in_workflow(terminal: Terminal, workflow: Workflow, session: str, given: Sequence[str]) -> list[str]:
    """Return the ids of items for ids or their beginnings, in any store of a workflow; see `full_ids`."""
    found: dict[str, dict[str, str]] = {each: {} for each in given}
    for declared in workflow.memory:
        address = StoreAddress(terminal=terminal, workflow=workflow, store=declared.name, session=session)
        if address.why_empty() is None:
            with address.opened() as store:
                for each, candidates in _candidates(store, given).items():
                    found[each] |= candidates
    return _resolved(found)


def full_run(stores: Iterable[MemoryBase], given: str) -> str:
    """Return the id of a run for an id or its beginning, in stores that keep versions; see `full_ids`."""
    from devmem.stores.abilities import keeps_versions, versions_of

    kept = [versions_of(store) for store in stores if keeps_versions(store)]
    if len(given) < _LEAST or any(versions.find_run(given) is not None for versions in kept):
        return given
    runs = (info for versions in kept for info in versions.runs(_RUNS))
    return _only(given, {info.run: info.state.value for info in runs if info.run.startswith(given)}, "run")


def short_run(run: str) -> str:
    """Return a run's id for a table: of one that undoes another, whose id is long, the beginning that commands take."""
    found = _UNDOING.fullmatch(run)
    return found[1] if found else run


def full_scope_id(store: MemoryBase, key: str, given: str) -> str:
    """Return the id of a conversation or trace for an id or its beginning; see `full_ids`."""
    from devmem.stores.collection_memory import CollectionMemory

    if len(given) < _LEAST or not isinstance(store, CollectionMemory):
        return given
    found = {str(value): "" for value in store.values(key, prefix=given, limit=_SHOWN + 1)}
    return given if given in found else _only(given, found, key)


def _only(given: str, found: Mapping[str, str], kind: str) -> str:
    """Return the only candidate, or the given id where there is none or it is itself a candidate."""
    if given in found or not found:
        return given
    if len(found) == 1:
        return next(iter(found))
    raise CommandError(
        f"{given!r} is the beginning of {len(found):,} {kind} ids: {', '.join(_told(found))}. Give more of the id."
    )


def _told(found: Mapping[str, str]) -> Iterator[str]:
    for name, text in islice(found.items(), _SHOWN):
        yield f"{name} ({text})" if text else name
    if len(found) > _SHOWN:
        yield f"and {len(found) - _SHOWN:,} more"


def whole_id(what: str, prefix: str, known: Sequence[str]) -> str:
    """Return the id that begins with some letters.

    Raises:
        CommandError: there is none, or several.
    """
    found = {one: "" for one in known if one.startswith(prefix)}
    if not found:
        raise CommandError(f"no {what} {prefix!r} is recorded.")
    return _only(prefix, found, what)


STDIN: Final = "-"
"""Argument that stands for standard input."""
UTF8_MARK: Final = b"\xef\xbb\xbf"
"""First bytes of a text that some editors save as UTF-8."""


def read_stdin() -> str:
    """Return all of standard input as one text."""
    return sys.stdin.buffer.read().removeprefix(UTF8_MARK).decode("utf-8", "replace").strip()


Ids: TypeAlias = Annotated[list[str] | None, option("Only this item; may be repeated.", "--id", metavar="ID")]
Newest: TypeAlias = Annotated[
    int | None, option("Number of the newest items; all by default.", "--limit", "-n", metavar="N", min=1)
]
ListOrder: TypeAlias = Annotated[
    Order, option("`stored`: in the order of storing; `event`: by event time, then `sequence`.", "--order")
]
Offset: TypeAlias = Annotated[int, option("Number of the newest items to skip.", "--offset", metavar="N", min=0)]
Output: TypeAlias = Annotated[
    Path | None, option("File to write; stdout by default.", "--output", "-o", metavar="FILE")
]


def check_output(address: StoreAddress, output: Path | None) -> None:
    """Raise `CommandError` when the file to write is the workflow, a file of the store, or any database."""
    if output is None:
        return
    # Only commands that write a file need what reads data files.
    from devmem.encryption.keys import is_database
    from devmem.transfer.importing.files import FileReader

    place = Path(os.path.realpath(output))
    workflow = address.workflow
    own = [*address.make().files(), *([workflow.file] if workflow.file is not None else [])]
    if any(_is_in(place, Path(os.path.realpath(file))) for file in own):
        raise CommandError(f"{output} belongs to the memory itself and was not changed; name another file.")
    if place.is_file() and is_database(FileReader(place).head()):
        raise CommandError(f"{output} is a database and was not changed; name another file.")


def _is_in(place: Path, kept: Path) -> bool:
    """Whether a file is another one, also by a second name of it, or is in that folder."""
    return kept == place or kept in place.parents or (place.exists() and kept.exists() and place.samefile(kept))


def pick(
    memory: MemoryBase, ids: Sequence[str] | None, newest: int | None, where: Filter, order: Order = Order.STORED
) -> Iterator[MemoryItem]:
    """Return the items, oldest first in their order; raises `CommandError` when a named one is missing."""
    if ids := full_ids(memory, ids):
        found = memory.get(ids)
        check_all_there(memory.name, ids, found)
        yield from found
    elif newest is not None:
        yield from reversed(memory.recent(newest, where, order=order))
    else:
        from devmem.stores.abilities import every_item

        yield from every_item(memory, where, order)


def check_all_there(store: str, ids: Sequence[str], found: Sequence[MemoryItem]) -> None:
    """Raise `CommandError` when a named item is not among those that were found."""
    there = {item.id for item in found}
    if missing := [wanted for wanted in ids if wanted not in there]:
        raise CommandError(f"memory store {store!r} has no item {', '.join(repr(wanted) for wanted in missing)}.")


def deliver(terminal: Terminal, parts: Iterable[str], output: Path | None) -> None:
    """Write the parts into the file as a whole, or print them."""
    if output is None:
        for part in parts:
            terminal.write(part)
        terminal.out.file.flush()
        return
    replace_file(output, (part.encode("utf-8") for part in parts))
    terminal.report("note", f"written to {output}")


History: TypeAlias = Annotated[
    bool, option("The text is a conversation so far, a JSON list of messages: store what is new.", "--history")
]


def read_texts(word: str, *, lines: bool) -> list[str]:
    """Return a text, or its lines; `-` reads standard input."""
    text = read_stdin() if word == STDIN else word
    return [line.strip() for line in text.splitlines() if line.strip()] if lines else [text]


def read_messages(word: str) -> list[Mapping[str, Any]]:
    """Return the messages of a JSON list, which `-` reads from standard input.

    Raises:
        CommandError: it is not such a list.
    """
    try:
        found = json.loads(read_stdin() if word == STDIN else word)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"The messages are not JSON: {error}.") from error
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise CommandError('Expected a JSON list of messages, such as [{"role": "user", "content": "..."}].')
    return found
