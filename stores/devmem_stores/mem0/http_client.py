"""The HTTP client that mem0's client is given: a request, its whole answer included, has one deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import httpx

_DEADLINE: Final = "devmem_deadline"


def open_http_client(timeout: float, *, clock: Callable[[], float] = time.monotonic) -> httpx.Client:
    """Open a client whose requests end after `timeout` seconds, however slowly the answer drips in.

    httpx itself limits only the time between two pieces of an answer (and mem0's own client that to 300 s).
    """

    def begin(request: httpx.Request) -> None:
        request.extensions[_DEADLINE] = clock() + timeout

    def limit(response: httpx.Response) -> None:
        stream = response.stream
        if isinstance(stream, httpx.SyncByteStream):
            response.stream = _Limited(stream, response.request, clock)

    return httpx.Client(timeout=timeout, event_hooks={"request": [begin], "response": [limit]})


class _Limited(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream, request: httpx.Request, clock: Callable[[], float]) -> None:
        self._stream, self._request, self._clock = stream, request, clock

    def __iter__(self) -> Iterator[bytes]:
        deadline = self._request.extensions[_DEADLINE]
        for piece in self._stream:
            if self._clock() > deadline:
                raise httpx.ReadTimeout("the answer did not end in time", request=self._request)
            yield piece

    def close(self) -> None:
        self._stream.close()
