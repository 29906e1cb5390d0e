"""What the commands print: answers on stdout, everything about them on stderr."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TextIO
from unicodedata import category

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from devmem.text.display import one_line, visible

_STYLES: Final = {"error": "bold red", "warning": "yellow", "note": "dim"}
_UNSHOWN: Final = ("Cc", "Cs")
_LEAST_SECRET: Final = 4
"""A shorter key is not blotted out: it would take ordinary letters with it."""


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"


def _writable(stream: TextIO) -> TextIO:
    """Let a stream write what its encoding lacks as an escape, instead of failing."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="dim")


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
        """Give the text with every secret blotted out."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def report(self, level: str, text: str) -> None:
        """Say something on stderr, once: a `note`, a `warning` or an `error`."""
        text = self.masked(visible(text))
        if text in self._said:
            return
        self._said.add(text)
        lead = Text("" if level == "note" else f"{level}: ", style=_STYLES.get(level, ""))
        self.err.print(lead.append(text, style="default not bold"), soft_wrap=True)

    def print(self, text: str = "", style: str = "") -> None:
        """Print a text as it is, control characters aside."""
        self.out.print(Text(visible(text), style=style), soft_wrap=True)

    def _is_utf8(self) -> bool:
        return self.out.encoding.lower().replace("_", "-") in ("utf-8", "utf8")

    def json(self, value: Any, *, indent: int | None = None) -> None:  # noqa: ANN401 - anything that JSON can say
        """Print a value as JSON, on one line unless it is indented, in whatever encoding the stream has."""
        text = json.dumps(value, ensure_ascii=False, indent=indent)
        if not self._is_utf8() or visible(text) != text:
            text = json.dumps(value, ensure_ascii=True, indent=indent)
        self.out.print(Text(text), soft_wrap=True)
        self.out.file.flush()

    def write(self, text: str) -> None:
        """Write a part of a document as it is; only what the stream or a terminal cannot take becomes an escape.

        The escapes are those of JSON, whose strings mean the same with them.
        """
        if not self._is_utf8():
            text = "".join(char if char.isascii() else _escaped(char) for char in text)
        shown = "".join(char if char in "\n\t" or category(char) not in _UNSHOWN else _escaped(char) for char in text)
        self.out.file.write(shown)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[str] = ()) -> None:
        """Print a table; no cell is cut. Where a program reads it, a row is a line."""
        cells = [[one_line(cell) for cell in row] for row in rows]
        if not self.out.is_terminal:
            self._plain_table(head, cells)
            return
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        # A column that nobody fills would take its width from the text.
        kept = [at for at in range(len(head)) if not cells or any(row[at] for row in cells)]
        for name in (head[at] for at in kept):
            justify: JustifyMethod = "right" if name in numbers else "left"
            table.add_column(name, overflow="fold", justify=justify, no_wrap=name in numbers or name == "date")
        for row in cells:
            table.add_row(*(Text(row[at]) for at in kept))
        self.out.print(table)

    def _plain_table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        lines = [head, *rows]
        widths = [max(cell_len(line[at]) for line in lines) for at in range(len(head))]
        for line in lines:
            padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True))
            self.print("  ".join(padded).rstrip())

    @contextmanager
    def progress(self, what: str, total: int | None, *, shown: bool = True) -> Iterator[Progress]:
        """Show a bar while something runs, where a person watches; gives it with its one task."""
        # On the terminal that answers are printed to, so that they appear above the bar.
        console = self.out if self.out.is_terminal else self.err
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:
            bar.add_task(one_line(what), total=total)
            yield bar
