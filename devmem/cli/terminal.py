"""The standard streams of a command: answers on stdout, everything about them on stderr."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TextIO
from unicodedata import category

from rich.console import Console
from rich.text import Text

from devmem.credentials import without_credentials
from devmem.text.display import is_control, one_line, visible

if TYPE_CHECKING:
    from rich.progress import Progress

_STYLES: Final = {"error": "bold red", "warning": "yellow", "note": "dim"}
_SURROGATE: Final = "Cs"
"""Unicode's category of half a surrogate pair, which UTF-8 cannot hold."""
_LEAST_SECRET: Final = 4
"""Characters of the shortest key that is masked: a shorter one would take ordinary words with it."""


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"


def _writable(stream: TextIO) -> TextIO:
    """Make a stream write characters that its encoding lacks as escapes, instead of failing."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


@dataclass(slots=True)
class Terminal:
    """The standard streams of one command, and how to print on them."""

    debug: bool = False
    """Show tracebacks."""
    out: Console = field(default_factory=lambda: Console(file=_writable(sys.stdout), highlight=False))
    err: Console = field(default_factory=lambda: Console(file=_writable(sys.stderr), highlight=False))
    _secrets: set[str] = field(default_factory=set, repr=False)
    _said: set[str] = field(default_factory=set, repr=False)

    def hide(self, secret: str) -> None:
        """Never print this on stderr."""
        if len(secret) >= _LEAST_SECRET:
            self._secrets.add(secret)

    def masked(self, text: str) -> str:
        """Return the text with every secret masked, also user and password of a URL."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return without_credentials(text)

    def report(self, level: str, text: str, *, repeat: bool = False) -> None:
        """Print a `note`, a `warning` or an `error` on stderr, each text once unless it is to be repeated."""
        text = self.masked(visible(text))
        # An error that says what a warning said before has happened now.
        said = f"{level == 'error'} {text}"
        if said in self._said and not repeat:
            return
        self._said.add(said)
        lead = Text("" if level == "note" else f"{level}: ", style=_STYLES.get(level, ""))
        self.err.print(lead.append(text, style="default not bold"), soft_wrap=True)

    def print(self, text: str = "", style: str = "") -> None:
        """Print a text as it is, with control characters as escapes."""
        self.out.print(Text(visible(text), style=style), soft_wrap=True)

    def print_piece(self, text: str) -> None:
        """Print a part of a line at once, with control characters as escapes."""
        self.out.print(Text(visible(text)), soft_wrap=True, end="")
        self.out.file.flush()

    def _is_utf8(self) -> bool:
        return self.out.encoding.lower().replace("_", "-") in ("utf-8", "utf8")

    def json(self, value: Any, *, indent: int | None = None) -> None:  # noqa: ANN401 - any JSON value
        """Print a value as JSON, on one line unless it is indented, in any encoding of the stream."""
        text = json.dumps(value, ensure_ascii=False, indent=indent)
        if not self._is_utf8() or visible(text) != text:
            text = json.dumps(value, ensure_ascii=True, indent=indent)
        self.out.print(Text(text), soft_wrap=True)
        self.out.file.flush()

    def write(self, text: str) -> None:
        """Write a part of a document as it is; only what the stream or a terminal cannot take becomes an escape.

        The escapes are those of JSON, so that a JSON document keeps its meaning.
        """
        if not self._is_utf8():
            text = "".join(char if char.isascii() else _escaped(char) for char in text)
        self.out.file.write("".join(_escaped(c) if is_control(c) or category(c) == _SURROGATE else c for c in text))

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[str] = ()) -> None:
        """Print a table whose last column is the text; no cell is cut. Where a program reads it, a row is a line."""
        from devmem.cli.tables import arranged, plain_lines

        cells = [[one_line(cell) for cell in row] for row in rows]
        if self.out.is_terminal:
            self.out.print(arranged(self.out, head, cells, numbers))
            return
        for line in plain_lines(head, cells):
            self.print(line)

    def progress(self, description: str, total: int | None, *, shown: bool = True) -> AbstractContextManager[Progress]:
        """Show a bar with one task until the block ends, where a person watches."""
        from devmem.cli.progress import progress_bar

        # On the terminal that answers are printed to, so that they appear above the bar.
        console = self.out if self.out.is_terminal else self.err
        return progress_bar(console, description, total, shown=shown)
