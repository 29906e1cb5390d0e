"""Errors of a command: one paragraph on stderr and an exit code; a traceback only with `--debug`."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import typer

from devmem.errors import CommandError, DevmemError
from devmem.text.files import finished_name

if TYPE_CHECKING:
    from devmem.cli.terminal import Terminal


EXIT_PARTLY: Final = 1
"""Done, but a store could not do its part."""
EXIT_FAILED: Final = 2
EXIT_BUG: Final = 70
EXIT_INTERRUPTED: Final = 130
EXIT_READER_LEFT: Final = 141
"""The reader of the output, such as `head`, left early; shells give this code to a process that SIGPIPE ended."""


def unknown(kind: str, name: str, known: Sequence[str], *, file: str) -> CommandError:
    """Return the error for a name that is not in the workflow, with the likely one and all that exist."""
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    there = f"It has: {', '.join(known)}." if known else "It has none."
    return CommandError(f"{file}: there is no {kind} {name!r} in this workflow.{hint} {there}")


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a `ValueError` about an argument, such as an unreadable date, into a `CommandError`."""
    try:
        yield
    except DevmemError:
        raise
    except ValueError as error:
        raise CommandError(f"{error}.") from error


@contextmanager
def guarded(terminal: Callable[[], Terminal]) -> Iterator[None]:
    """Turn errors into a message and `typer.Exit`; `terminal` is called when there is something to print."""
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        terminal().report("note", "interrupted")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        _forget_stdout()
        raise typer.Exit(EXIT_READER_LEFT) from None
    except DevmemError as error:
        raise _failed(terminal(), error, str(error), EXIT_FAILED) from None
    except OSError as error:
        name = f"{finished_name(str(error.filename))}: " if error.filename else ""
        raise _failed(terminal(), error, f"{name}{error.strerror or error}", EXIT_FAILED) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if type(error).__module__.startswith(("typer.", "click.")):
            raise  # a wrong option: typer shows the usage
        text = f"internal error (please report): {type(error).__name__}: {error}. `devmem --debug ...` shows where."
        raise _failed(terminal(), error, text, EXIT_BUG) from None


def _failed(terminal: Terminal, error: Exception, text: str, code: int) -> typer.Exit:
    if terminal.debug:
        trace = "".join(traceback.format_exception(error))
        terminal.report("note", trace)
    terminal.report("error", text)
    return typer.Exit(code)


def _forget_stdout() -> None:
    """Discard buffered output: the reader has left, and Python would report it at exit."""
    try:
        stdout = sys.stdout.fileno()
    except (OSError, ValueError):  # not a stream of the system
        sys.stdout = io.StringIO()
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stdout)
    os.close(nowhere)
