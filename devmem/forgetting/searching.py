"""Looking for the words of what was forgotten in the files beside the stores' own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from devmem.collections import Unreached
from devmem.collections.erasure import search_files, words_in
from devmem.collections.small_database import is_in_rows, tables_of


def files_below(places: Iterable[Path]) -> list[Path]:
    """Return the files among some places, and those in the folders among them, each once."""

    def listed(place: Path) -> Iterator[Path]:
        if place.is_dir():
            yield from (file for file in sorted(place.rglob("*")) if file.is_file())
        elif place.exists():
            yield place

    return list(dict.fromkeys(file for place in places for file in listed(place)))


def search_rest(files: Sequence[Path], words: Sequence[str]) -> tuple[list[str], list[Unreached]]:
    """Look for words in files; return the files without any, and those with some.

    A word that is in a row of one of the databases, or in a write that still waits, belongs to what remains, and says
    nothing.
    """
    databases = [file for file in files if tables_of(file)]
    lines = [file for file in files if file.suffix == ".jsonl"]
    known: dict[str, bool] = {}

    def remains(word: str) -> bool:
        if word not in known:
            known[word] = any(is_in_rows(file, word) for file in databases) or any(
                words_in(file, [word]) for file in lines
            )
        return known[word]

    return search_files(files, words, remains)
