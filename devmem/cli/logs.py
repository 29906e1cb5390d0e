"""Log messages of devmem on the terminal, one line each."""

from __future__ import annotations

import logging
from collections.abc import Callable

from devmem.cli.terminal import Terminal
from devmem.text.display import one_line


class _Lines(logging.Handler):
    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        text = one_line(record.getMessage())
        if record.levelno < logging.WARNING:
            level, text = "note", f"{record.name}: {text}"
        self._terminal.report(level, text)


def show_logs(terminal: Terminal, *, verbose: bool) -> Callable[[], None]:
    """Print devmem's warnings (verbose: all messages) on stderr; return the function that stops it."""
    logger = logging.getLogger("devmem")
    before = (logger.level, logger.propagate)
    handler = _Lines(terminal)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
    logger.propagate = False

    def undo() -> None:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before

    return undo
