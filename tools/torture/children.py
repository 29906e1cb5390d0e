"""Child processes that can be killed: forked from this one, so that starting one takes milliseconds."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Final, Self

_LINE: Final = b"\n"
EXIT_FAILED: Final = 70


class Child:
    """A forked process that runs one function, which prints lines through a pipe.

    The parent must hold no store open and run no other thread when it forks.
    """

    def __init__(self, work: Callable[[Callable[[str], None]], None]) -> None:
        """Start a process that runs `work`; what it is called with sends a line to the parent."""
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            os._exit(_run(work, writing))
        os.close(writing)
        self._reading, self._left, self._lines = reading, b"", list[str]()
        self.status: int | None = None
        self.ended = False
        """Whether the process was seen to send nothing any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is None:
            self.kill()
        os.close(self._reading)

    def wait_for_lines(self, number: int, seconds: float) -> list[str]:
        """Read until `number` lines are there or the process ends; return all lines so far.

        Args:
            number: lines to wait for, counted from the start.
            seconds: longest time to wait.
        """
        end = time.monotonic() + seconds
        while len(self._lines) < number and (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self._reading], [], [], left)
            if ready and not self._read():
                break
        return self._lines

    def kill(self) -> list[str]:
        """Kill the process with SIGKILL; return every line that it had sent."""
        os.kill(self.pid, signal.SIGKILL)
        return self.finish()

    def finish(self) -> list[str]:
        """Wait for the end; return every line. The exit code is in `status`, negative for a signal."""
        while self._read():
            pass
        _, status = os.waitpid(self.pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        return self._lines

    def _read(self) -> bool:
        data = os.read(self._reading, 1 << 16)
        *lines, self._left = (self._left + data).split(_LINE)
        self._lines += [line.decode() for line in lines]
        self.ended = not data
        return bool(data)


def _run(work: Callable[[Callable[[str], None]], None], writing: int) -> int:
    def send(line: str) -> None:
        # One call of `write` for a short line: a kill leaves a whole line or none.
        os.write(writing, " ".join(line.split()).encode("utf-8", "backslashreplace") + _LINE)

    try:
        work(send)
    except BaseException:  # noqa: BLE001 - the child ends here, whatever it was; the parent reads the exit code
        traceback.print_exc(file=sys.stderr)
        return EXIT_FAILED
    return 0
