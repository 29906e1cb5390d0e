"""Erasing items permanently: what is selected, what is looked for in the files afterwards, and what was reached."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final
from unicodedata import normalize
from uuid import uuid4

import numpy as np
from pydantic import JsonValue

from devmem.model.filters import Filter
from devmem.model.interactions import InteractionKind, ParticipantType
from devmem.model.items import MemoryItem, SourceKind, dump_item_json
from devmem.model.message import Role
from devmem.storage.protocol import Collection
from devmem.text.files import remove_leftovers
from devmem.text.patterns import lazy_pattern

FOREVER: Final = float("-inf")
"""A time at which nothing has expired: what has expired is forgotten too."""
_WORD: Final = lazy_pattern(r"\w{6,}")
_PAIR: Final = lazy_pattern(r"\w{6,}\W{1,3}\w{2,}")
_RARE: Final = lazy_pattern(r"(?=.*[\d\u0080-\U0010ffff])\w{6,}|\w{12,}")
"""A word that no file of ours has by itself, unlike those of SQL."""
_WORD_LENGTH: Final = 16
"""Characters of a word that are looked for: a text without spaces is one word."""
_WORDS_OF_ITEM: Final = 8
_WORDS: Final = 128
"""Maximum number of words that are looked for."""
_KINDS: Final = frozenset(map(str, (*Role, *SourceKind, *ParticipantType, *InteractionKind)))
_CLASS_KEYS: Final = frozenset({"cause_by"})
"""Keys of metadata whose values name a class of a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseRequest:
    """Items that are to be erased; what is given in several ways must hold together."""

    ids: tuple[str, ...] | None = None
    where: Filter = field(default_factory=Filter)
    """Expired items match it too."""
    text: str | None = None
    """A part of the items' text, or of a text among their metadata, whatever its case and its Unicode form."""
    run: str | None = None
    """Run in which they were written."""
    tombstone: bool = field(default=False, compare=False)
    """Whether hashes are kept, by which what is erased is recognized when it comes back."""

    @property
    def is_everything(self) -> bool:
        """Whether every item is selected."""
        return self.ids is None and self.text is None and self.run is None and self.where.everything()

    def contains_text(self, item: MemoryItem) -> bool:
        """Whether an item has the text that is asked for."""
        if self.text is None:
            return True
        wanted = _folded(self.text)
        return any(wanted in _folded(text) for text in (*texts_of(item), *metadata_texts(item)))

    def admits(self, item: MemoryItem) -> bool:
        """Whether an item is selected, as far as the item itself shows."""
        named = self.ids is None or item.id in self.ids
        of_run = self.run is None or item.scope.run == self.run
        return named and of_run and self.where.admits(item, FOREVER) and self.contains_text(item)


@dataclass(frozen=True, slots=True, kw_only=True)
class Residue:
    """A place that an erasure did not reach."""

    place: str
    reason: str
    failed: bool = False
    """Whether it is reached otherwise and something went wrong, as in a damaged file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseResult:
    """Result of an erasure in one place."""

    items: int = 0
    """Number of items that were there."""
    reached: tuple[str, ...] = ()
    """Files in which nothing is left of them; empty where they were in memory, or were not looked for."""
    residues: tuple[Residue, ...] = ()
    tombstones: int = 0
    """Number of texts that tombstones keep out from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasePlan:
    """One erasure that has begun: the items and versions that remain to be erased."""

    id: str = field(default_factory=lambda: uuid4().hex)
    ids: tuple[str, ...] = ()
    """Items that go with every version."""
    rows: tuple[int, ...] = ()
    """Versions of items that stay."""
    items: int = 0
    """Number of items that were there when it began and that no other erasure had planned."""
    is_executed: bool = False
    """Whether a living process is at work on it, as `planned_erasures` found."""

    def covers(self, other: ErasePlan) -> bool:
        """Whether this erasure removes every item and version that another one names, which has only begun."""
        # One without any is done but for the files.
        has_begun = bool(other.ids or other.rows)
        return has_begun and set(self.ids) >= set(other.ids) and set(self.rows) >= set(other.rows)


def texts_of(item: MemoryItem) -> Iterator[str]:
    """Return the texts of an item."""
    yield item.content_summary
    yield from (snapshot.text for snapshot in (item.input_snapshot, item.output_snapshot) if snapshot)


def metadata_texts(item: MemoryItem) -> Iterator[str]:
    """Yield the texts among the metadata of an item, at any depth; words by which devmem names a role or kind are none.

    The name of its source is one of them.
    """
    waiting: list[JsonValue] = [item.provenance.name, dict(item.metadata)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [value[key] for key in value if key not in _CLASS_KEYS]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and value not in _KINDS:
            yield value


def _folded(text: str) -> str:
    """Return the form of a text that is the same for each of its spellings in Unicode and in either case."""
    return normalize("NFD", normalize("NFD", text).casefold())


def descendants(items: Sequence[MemoryItem], ids: Sequence[str]) -> list[MemoryItem]:
    """Return those of some items that were derived from the ids, or from such items; each id once."""
    reached, found = set(ids), dict[str, MemoryItem]()
    grew = True
    while grew:
        new = {
            each.id: each
            for each in items
            if each.id not in reached and not reached.isdisjoint(each.provenance.parents)
        }
        found.update(new)
        reached.update(new)
        grew = bool(new)
    return list(found.values())


def words_of(items: Sequence[MemoryItem]) -> list[str]:
    """Return what only these items can have left in a file: their ids, pairs of their words, and rare words.

    A word such as "UPDATE" alone is in every database.
    """
    most = max(1, min(_WORDS_OF_ITEM, _WORDS // max(len(items), 1)))
    found: dict[str, None] = {}
    step = max(1, len(items) // _WORDS)
    for item in items[::step]:
        # The metadata may be full of ids and hashes, which are longer than any word.
        for texts, number in (([*texts_of(item)], most), ([*metadata_texts(item)], (most + 1) // 2)):
            words = {pair[: 2 * _WORD_LENGTH] for text in texts for pair in _PAIR.findall(text)}
            words |= {word[:_WORD_LENGTH] for text in texts for word in _WORD.findall(text) if _RARE.fullmatch(word)}
            found.update(dict.fromkeys(sorted(words, key=lambda word: (-len(word), word))[:number]))
        if _WORD.search(item.id):
            found[item.id] = None
    return list(found)


_SOUGHT: Final = "ids, pairs of words and rare words of the erased items"
_LEAST_PAIRS: Final = 2
"""Words of fewer pairs of bytes are looked for one by one."""
_MOST_PAIRS: Final = 4
"""Pairs of bytes of a word's beginning that are one number."""
_PART: Final = 1 << 24
"""Number of bytes of a file that are searched at a time."""


def words_in(file: Path, words: Iterable[str]) -> set[str]:
    """Return those of some words that are in the bytes of a file, as UTF-8 or as JSON escapes them.

    There are none where there is no file.

    Raises:
        OSError: the file cannot be read.
    """
    forms = {form: word for word in words for form in _spelled(word)}
    search = _SearchOfBytes(forms.keys())
    found: set[str] = set()
    if not file.is_file():
        return found
    # Not mapped into memory: another process may cut the file off meanwhile, as SQLite does with its log.
    with suppress(FileNotFoundError), _opened(file) as opened:
        end = b""
        while part := opened.read(_PART):
            content = end + part
            found |= {forms[form] for form in search.found_in(content)}
            end = content[-search.longest :]
    return found


class _SearchOfBytes:
    """Looks for many words at once: pairs of bytes find the places of their beginnings, which are then compared."""

    def __init__(self, words: Set[bytes]) -> None:
        self.longest = max(map(len, words), default=0)
        self._short = [word for word in words if len(word) < 2 * _LEAST_PAIRS]
        self._long: dict[int, dict[int, list[bytes]]] = {}
        """Words by the number of pairs in their beginning, and by that as a number."""
        self._starts = np.zeros((_LEAST_PAIRS, 1 << 16), dtype=np.bool_)
        for word in words - set(self._short):
            pairs = np.frombuffer(word, "<u2", min(len(word) // 2, _MOST_PAIRS))
            self._starts[range(_LEAST_PAIRS), pairs[:_LEAST_PAIRS]] = True
            beginning = int.from_bytes(pairs.tobytes(), "little")
            self._long.setdefault(len(pairs), {}).setdefault(beginning, []).append(word)

    def found_in(self, content: bytes) -> set[bytes]:
        """Return the words that are in some bytes."""
        found = {word for word in self._short if word in content}
        # Bytes behind the end, which no word has room for.
        padded = content + bytes(2 * _MOST_PAIRS)
        for start in (0, 1) if self._long else ():
            pairs = np.frombuffer(padded, "<u2", (len(padded) - start) // 2, start)
            places = np.flatnonzero(self._starts[0][pairs[: len(pairs) - _MOST_PAIRS]])
            for number in range(1, _LEAST_PAIRS):
                places = places[self._starts[number][pairs[places + number]]]
            for length, words in self._long.items():
                beginnings = np.zeros(len(places), dtype=np.uint64)
                for number in range(length):
                    beginnings |= pairs[places + number].astype(np.uint64) << np.uint64(16 * number)
                known = np.isin(beginnings, np.array(list(words), dtype=np.uint64))
                for place, beginning in zip(places[known].tolist(), beginnings[known].tolist(), strict=True):
                    found.update(word for word in words[beginning] if content.startswith(word, 2 * place + start))
        return found


_WITHOUT_LOCKS: Final = ("-wal", ".faiss", ".jsonl")
"""Endings of files on which SQLite holds no lock."""


@contextmanager
def _opened(file: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading; one that may be a database is read by another process.

    Under POSIX, closing a file releases every lock that the process has on it, also those of SQLite's connections
    (https://www.sqlite.org/howtocorrupt.html, 2.2): another process would then remove the log, and with it what this
    one writes later.
    """
    if os.name != "posix" or file.name.endswith(_WITHOUT_LOCKS):
        with file.open("rb") as opened:
            yield opened
        return
    # Imported here: most processes erase nothing.
    import subprocess

    command = ["cat", "--", os.fspath(file.absolute())]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process:  # noqa: S603 - POSIX has it
        if process.stdout is None or process.stderr is None:
            raise OSError("the process that reads files has no output")
        try:
            yield process.stdout
        except BaseException:
            process.kill()
            raise
        said = process.stderr.read().decode(errors="replace").strip()
    if process.returncode:
        # Another process may have removed it since.
        kind = OSError if file.exists() else FileNotFoundError
        raise kind(said or f"the process that reads it ended with {process.returncode}")


def _spelled(word: str) -> set[bytes]:
    """Return the bytes that a word is in a file: as it is, and with the escapes of JSON in ASCII."""
    return {word.encode("utf-8", "surrogatepass"), json.dumps(word)[1:-1].encode("ascii")}


def search_files(
    files: Iterable[Path], words: Sequence[str], is_elsewhere: Callable[[str], bool]
) -> tuple[list[str], list[Residue]]:
    """Look for words in files; return the files in which none is left, and those in which some are.

    Args:
        files: the files; those that do not exist are left out.
        words: of what was erased.
        is_elsewhere: whether a word is also in what remains, so that it says nothing.
    """
    clean: list[str] = []
    left: list[Residue] = []
    for file in files:
        if not file.exists():
            continue
        try:
            found = sum(not is_elsewhere(word) for word in words_in(file, words))
        except OSError as error:
            left.append(Residue(place=str(file), reason=f"it cannot be read: {error}", failed=True))
            continue
        if found:
            left.append(Residue(place=str(file), reason=f"{found} of {len(words)} {_SOUGHT} were found in it"))
        else:
            clean.append(str(file))
    return clean, left


def search_deleted(collection: Collection, items: int, words: Sequence[str]) -> EraseResult:
    """Return the result of an erasure from a collection that only deletes: its file is searched, if it has one."""
    place = collection.info().location
    if "://" in place:
        reason = "what the service keeps in logs, replicas and backups is out of reach"
        return EraseResult(items=items, residues=(Residue(place=place, reason=reason),))
    kept = [dump_item_json(item).decode(errors="replace") for item in collection.scan()] if words else []
    reached, left = search_files([Path(place)], words, lambda word: any(word in text for text in kept))
    return EraseResult(items=items, reached=tuple(reached) if words else (), residues=tuple(left))


_LOG: Final = logging.getLogger(__name__)


def remove_partial_files(*paths: Path) -> None:
    """Remove the partial files of killed writers of some files, or in some folders; a failure is logged."""
    for path in paths:
        try:
            removed = remove_leftovers(path)
        except OSError as error:
            _LOG.warning("%s: a partial file of a killed process was not removed: %s", path, error)
        else:
            if removed:
                _LOG.info("%s: removed %d partial file(s) of a killed process.", path, removed)
