"""Choice of a file's reader by its suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import PurePath
from typing import Final

from devmem.text import decode_text, describe_guess
from devmem_stores.file.chunks import Section

_TEXTS: Final = {
    "markdown": ".md .markdown .mdx",
    "python": ".py .pyi",
    "html": ".html .htm .xhtml",
    "delimited": ".csv .tsv",
    "json_lines": ".jsonl .ndjson",
    "code": (
        ".js .jsx .mjs .cjs .ts .tsx .java .kt .kts .scala .go .rs .c .h .cc .cpp .cxx .hpp .hh .cs .rb .php .swift .m "
        ".lua .pl .r .jl .ex .exs .erl .hs .ml .clj .dart .sh .bash .zsh .ps1 .sql .proto .graphql .vue .svelte"
    ),
}
_READERS: Final = {suffix: name for name, suffixes in _TEXTS.items() for suffix in suffixes.split()}
_BINARY: Final = {".pdf": "pdf", ".docx": "docx"}
_PACKAGE: Final = "devmem_stores.file.formats"


def read_sections(name: str, data: bytes, encoding: str | None) -> Iterable[Section]:
    """Split a file into sections, by the format that its suffix names.

    Raises:
        UnreadableError: the content is not what it should be.
        MissingExtraError: the package that reads this format is not installed.
    """
    suffix = _suffix(name)
    if suffix in _BINARY:
        read: Callable[[bytes], Iterable[Section]] = import_module(f"{_PACKAGE}.{_BINARY[suffix]}").sections
        return read(data)
    text = decode_text(data, encoding)
    reader = import_module(f"{_PACKAGE}.{_READERS.get(suffix, 'plain')}")
    if suffix == ".tsv":
        tabbed: Callable[[str, str], Iterable[Section]] = reader.sections
        return tabbed(text, "\t")
    sections: Callable[[str], Iterable[Section]] = reader.sections
    return sections(text)


def encoding_guess(name: str, data: bytes, encoding: str | None) -> str:
    """Return what is known of a text's encoding that was guessed; empty where it was not, and for other files."""
    return describe_guess(data) if encoding is None and _suffix(name) not in _BINARY else ""


def _suffix(name: str) -> str:
    return PurePath(name).suffix.lower()
