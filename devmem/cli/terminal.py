"""The standard streams of a command: answers on stdout, everything about them on stderr."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, TextIO
from unicodedata import category

from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.text import Text

from devmem.redaction import without_credentials
from devmem.text.display import is_control, one_line, visible

if TYPE_CHECKING:
    from rich.progress import Progress

    from devmem.model.items import MemoryItem
    from devmem.model.results import WriteOutcome


_STYLES: Final = {"error": "bold red", "warning": "yellow", "note": "dim"}
_SURROGATE: Final = "Cs"
"""Unicode's category of half a surrogate pair, which UTF-8 cannot hold."""


def can_ask() -> bool:
    """Whether a person is there to be asked."""
    return sys.stdin.isatty()


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"


def _same_sink(first: IO[str], second: IO[str]) -> bool:
    """Whether two streams end in the same terminal or file."""
    try:
        return os.path.sameopenfile(first.fileno(), second.fileno())
    except (OSError, ValueError, AttributeError):  # not streams of the system
        return False


def _writable(stream: TextIO) -> TextIO:
    """Make a stream write characters that its encoding lacks as escapes, instead of failing."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command how it ends where the reader has left; rich would end it with 1."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


@dataclass(slots=True)
class Terminal:
    """The standard streams of one command, and how to print on them."""

    debug: bool = False
    """Show tracebacks."""
    has_key: bool = False
    """Whether --key-file was given."""
    as_json: bool = False
    """Whether `--json` asks for JSON."""
    out: Console = field(default_factory=lambda: _Console(file=_writable(sys.stdout), highlight=False))
    err: Console = field(default_factory=lambda: _Console(file=_writable(sys.stderr), highlight=False))
    _said: set[str] = field(default_factory=set, repr=False)
    _is_in_line: bool = field(default=False, repr=False)
    """Whether a line of stdout was begun and not ended."""

    def report(self, level: str, text: str, *, repeat: bool = False) -> None:
        """Print a `note`, a `warning` or an `error` on stderr, each text once unless it is to be repeated."""
        text = visible(without_credentials(text))
        # An error that says what a warning said before has happened now.
        said = f"{level == 'error'} {text}"
        if said in self._said and not repeat:
            return
        self._said.add(said)
        if self._is_in_line and _same_sink(self.out.file, self.err.file):
            self.end_line()
        lead = Text("" if level == "note" else f"{level}: ", style=_STYLES.get(level, ""))
        self.err.print(lead.append(text, style="default not bold"), soft_wrap=True)

    def print(self, text: str = "", style: str = "") -> None:
        """Print a text as it is, with control characters as escapes."""
        self.out.print(Text(visible(text), style=style), soft_wrap=True)

    def print_piece(self, text: str) -> None:
        """Print a part of a line at once, with control characters as escapes."""
        self.out.print(Text(visible(text)), soft_wrap=True, end="")
        self.out.file.flush()
        self._is_in_line = not text.endswith("\n")

    def end_line(self) -> None:
        """End a line that was printed in pieces, if it is not ended."""
        if self._is_in_line:
            self.out.print()
            self._is_in_line = False

    def waiting(self, text: str, *, shown: bool) -> AbstractContextManager[object]:
        """Show that the command is waiting, until the block ends, if a person is watching."""
        if not (shown and self.err.is_terminal):
            return nullcontext()
        return self.err.status(text)

    def _is_utf8(self) -> bool:
        return self.out.encoding.lower().replace("_", "-") in ("utf-8", "utf8")

    def json(self, value: Any, *, indent: int | None = None) -> None:  # noqa: ANN401 - any JSON value
        """Print a value as JSON, on one line unless it is indented, in any encoding.

        The value may hold dataclasses and models; keys of a model without a value are left out.
        """
        value = to_jsonable_python(value, exclude_none=True)
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

    def answer(self, value: Any, text: str) -> None:  # noqa: ANN401 - any JSON value
        """Print the answer of a command: a text for people, or JSON for programs."""
        if self.as_json:
            self.json(value)
        else:
            self.print(text)

    def rows(
        self, value: object, head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[str] = ()
    ) -> None:
        """Print the answer of a command: a table for people, or JSON for programs."""
        if self.as_json:
            self.json(value)
        else:
            self.table(head, rows, numbers=numbers)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[str] = ()) -> None:
        """Print a table whose last column is the text; no cell is cut. Where a program reads it, a row is a line."""
        from devmem.cli.tables import arranged, plain_lines

        cells = [[one_line(cell) for cell in row] for row in rows]
        if self.out.is_terminal:
            self.out.print(arranged(self.out, head, cells, numbers))
            return
        for line in plain_lines(head, cells):
            self.print(line)

    @contextmanager
    def progress(
        self, description: str, total: int | None, *, shown: bool = True, in_bytes: bool = False
    ) -> Iterator[Progress]:
        """Show a bar with one task until the block ends, where a person watches.

        `total` is the number of steps, None where it is not known.
        """
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        # On the terminal that answers are printed to, so that they appear above the bar.
        console = self.out if self.out.is_terminal else self.err
        done = DownloadColumn() if in_bytes else MofNCompleteColumn()
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), done, TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:
            bar.add_task(one_line(description), total=total)
            yield bar


_NEGLIGIBLE: Final = 0.0005
"""A contribution that is zero in the three digits that are shown."""


def date_text(seconds: float | None) -> str:
    """Return a time (seconds since the epoch) as local date and time; empty for None."""
    if seconds is None:
        return ""
    from devmem.text.moments import local

    try:
        return local(seconds).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError, ValueError):  # outside of the years that a date can have
        return f"{seconds:g}"


def period_text(start: float, end: float) -> str:
    """Return a period (seconds since the epoch), which may be open at one end, in words."""
    from devmem.text.moments import zone_name
    from devmem.text.times import EARLIEST, LATEST

    zone = zone_name()
    if start <= EARLIEST.timestamp():
        return f"times before {date_text(end)} {zone}"
    if end >= LATEST.timestamp():
        return f"{date_text(start)} {zone} and later"
    return f"{date_text(start)} to {date_text(end)} {zone}"


_TIMES: Final = ("date", "recorded", "started")
"""Columns of times; the first of a table names the zone for all of them."""


def zoned(columns: Sequence[str]) -> Sequence[str]:
    """Return the columns of a table of times with the name of the local zone."""
    from devmem.text.moments import zone_name

    return [f"{name} ({zone_name()})" if name in _TIMES else name for name in columns]


def item_date(item: MemoryItem) -> str:
    """Return the date of the event that an item reports, or else the date when it was stored."""
    return date_text(item.created_at if item.event_time is None else item.event_time)


def number(value: float | None) -> str:
    """Return a signal with three digits; empty when it does not apply."""
    return "" if value is None else f"{value:.3f}"


def contributions(parts: Mapping[str, float]) -> str:
    """Return the contributions to a score, the largest first; negligible ones are left out."""
    ordered = sorted(parts.items(), key=lambda part: -abs(part[1]))
    return ", ".join(f"{name} {value:+.3f}" for name, value in ordered if abs(value) >= _NEGLIGIBLE)


def outcome_text(outcome: WriteOutcome) -> str:
    """Return what became of one write, with the item's id and the reason where there is one."""
    from devmem.model.results import WriteStatus

    reason = f" ({outcome.reason})" if outcome.reason else ""
    named = f" {outcome.item_id}" if outcome.item_id and outcome.status is not WriteStatus.SKIPPED else ""
    return f"{outcome.status.value}{named}{reason}"


def size_text(size: int) -> str:
    """Return a size in bytes with a unit that fits it."""
    return f"{size} B" if size < 1000 else f"{size / 1000:,.1f} kB" if size < 1_000_000 else f"{size / 1e6:,.1f} MB"
