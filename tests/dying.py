"""Processes that end in the middle of an operation, wherever it is, as by a loss of power."""

from __future__ import annotations

from typing import Final

DYING: Final = """
import os, sys
import devmem
_SOURCES = os.path.dirname(devmem.__file__)


def traced(operation, at_line):
    def trace(frame, event, _):
        if not frame.f_code.co_filename.startswith(_SOURCES):
            return None
        if event == "line":
            at_line()
        return trace

    sys.settrace(trace)
    try:
        operation()
    finally:
        sys.settrace(None)


def lines_of(operation):
    count = [0]

    def at_line():
        count[0] += 1

    traced(operation, at_line)
    return count[0]


def die_after(lines, operation):
    left = [lines]

    def at_line():
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)

    traced(operation, at_line)
"""
"""Beginning of a script: `lines_of` counts the lines of devmem that an operation passes, `die_after` ends the process
after a number of them."""
