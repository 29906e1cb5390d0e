"""HTTP connections of this machine's servers: none waits for an acknowledgement, and none stays without a request."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

_USUAL_FILES: Final = 1024
_TIMED_OUT: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 26\r\n\r\nthe request did not arrive"
)


class _TimedConnection(H11Protocol):
    """A connection that is closed when its request does not arrive."""

    header_seconds: float
    most_waiting: int
    waiting: dict[_TimedConnection, asyncio.TimerHandle | None]
    """Connections without a complete header, those that wait longest first; without a timer between two requests."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Send answers at once, and wait for a request; the longest waiting connections make room for a new one."""
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._start_timer()
        while len(self.waiting) > self.most_waiting:
            next(iter(self.waiting)).give_up()

    def handle_events(self) -> None:
        """Handle what arrived; the rest of a header is waited for from its first byte on."""
        super().handle_events()
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            self._stop_waiting()
        elif self.waiting.setdefault(self, None) is None and self.conn.trailing_data[0]:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Close the connection, with the reason."""
        self._stop_waiting()
        self.transport.write(_TIMED_OUT)
        self.transport.close()

    def _start_timer(self) -> None:
        self.waiting[self] = self.loop.call_later(self.header_seconds, self.give_up)

    def _stop_waiting(self) -> None:
        if (timer := self.waiting.pop(self, None)) is not None:
            timer.cancel()


def http_config(app: Any, *, header_seconds: float = 30.0, **options: Any) -> uvicorn.Config:  # noqa: ANN401 - uvicorn's
    """Return uvicorn's configuration for an application.

    Args:
        app: the ASGI application.
        header_seconds: how long a connection may take to send the header of a request.
        options: of `uvicorn.Config`.
    """
    # Files are left for the requests, and for the connections that are accepted before others make room.
    share = _open_files() // 4
    own = {"header_seconds": header_seconds, "most_waiting": share, "waiting": {}}
    connection = type("Connection", (_TimedConnection,), own)
    return uvicorn.Config(app, http=connection, log_level="warning", backlog=min(2048, share), **options)


def _open_files() -> int:
    """Return the number of files that this process may open."""
    if sys.platform == "win32":
        return _USUAL_FILES
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit if limit != resource.RLIM_INFINITY else 1 << 20


_SHORTEST_LIFE: Final = 5.0
"""Seconds; a worker that fails sooner would fail again."""


def fork_workers(count: int) -> int:
    """Fork the workers of a server, and return in each its number; the process itself ends with them.

    One that dies is forked again, unless it fails as soon as it has begun. At a signal to stop all of them get it.
    """
    numbers, began = dict[int, int](), dict[int, float]()
    ending: list[int] = []

    def stop(_signal: int, _frame: object) -> None:
        ending.append(0)
        for pid in numbers:
            os.kill(pid, signal.SIGTERM)

    waiting = list(range(count))
    usual = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
    while waiting or numbers:
        while waiting and not ending:
            number = waiting.pop()
            pid = os.fork()
            if not pid:
                for each, handler in usual.items():
                    signal.signal(each, handler)
                return number
            numbers[pid], began[pid] = number, time.monotonic()
        if not numbers:
            break
        pid, status = os.wait()
        number = numbers.pop(pid)
        if os.waitstatus_to_exitcode(status) > 0 and time.monotonic() - began[pid] < _SHORTEST_LIFE:
            ending.append(os.waitstatus_to_exitcode(status))
            for other in numbers:
                os.kill(other, signal.SIGTERM)
        waiting.append(number)
    sys.exit(max(ending))
