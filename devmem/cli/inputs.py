"""Inputs of `devmem run`: texts from the command line, a file, a pipe or the keyboard."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devmem.cli.failures import CommandError
from devmem.cli.terminal import Terminal
from devmem.errors import DataFileError
from devmem.transfer.importing.files import read_lines

_KEYS: Final = ("text", "question", "input", "content")
_FEW: Final = 3
"""Maximum number of inputs without a progress bar."""
STDIN: Final = "-"
"""Argument that stands for standard input."""
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The texts to run, one after another."""

    texts: Iterator[str]
    total: int | None
    """Number of texts; None when it is not known before the end."""

    @property
    def few(self) -> bool:
        """Whether each input is looked at on its own, rather than a bar over all of them."""
        return self.total is None or self.total <= _FEW


def well_formed(text: str) -> str:
    """Replace bytes of the command line that are not UTF-8, which no store could keep."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def find_inputs(terminal: Terminal, text: str | None, file: Path | None) -> Inputs:
    """Return the texts from where the options say.

    Raises:
        CommandError: there is no input, or there are two.
        DataFileError: the file, or (while it is read) a line of it, cannot be used.
    """
    if text is not None and file is not None:
        raise CommandError("give either --input or --input-file, not both.")
    if text == STDIN:
        return Inputs(texts=iter([read_stdin()]), total=1)
    if text is not None:
        return Inputs(texts=iter([well_formed(text)]), total=1)
    if file == Path(STDIN):
        return Inputs(texts=_from_stdin(), total=None)
    if file is not None:
        texts = [_text(file, number, line) for number, line in read_lines(file)]
        return Inputs(texts=iter(texts), total=len(texts))
    if _at_terminal():
        return Inputs(texts=_asked_for(terminal), total=None)
    raise CommandError("nothing to run: give --input TEXT, --input-file FILE, or --input-file - to read a pipe.")


def read_stdin() -> str:
    """Return all of standard input as one text."""
    return sys.stdin.buffer.read().removeprefix(_BOM).decode("utf-8", "replace").strip()


def _at_terminal() -> bool:
    return sys.stdin.isatty()


def _from_stdin() -> Iterator[str]:
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        line = raw.removeprefix(_BOM).decode("utf-8", "replace").strip()
        if line:
            yield _text(Path(STDIN), number, line)


def _asked_for(terminal: Terminal) -> Iterator[str]:
    while True:
        try:
            line = terminal.err.input("> ").strip()
        except EOFError:
            terminal.err.print()
            return
        if line:
            yield well_formed(line)


def _text(file: Path, number: int, line: str) -> str:
    """Return a line, or the text of the JSON object on it."""
    if not line.startswith("{"):
        return line
    try:
        raw = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        if file.name.removesuffix(".gz").endswith(".jsonl"):
            raise DataFileError(file, "the line is not JSON", line=number) from error
        return line
    text = next((raw[key] for key in _KEYS if key in raw), None) if isinstance(raw, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        raise DataFileError(file, f"no text: expected one of the keys {', '.join(_KEYS)}", line=number)
    return text
