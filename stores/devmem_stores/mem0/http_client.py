"""The HTTP client for mem0's client: a request, with its connection and its whole answer, has one deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import httpx


class DeadlineClient(httpx.Client):
    """A client whose requests end in time, however slowly the head or the body of an answer drips in.

    httpx itself limits only the time between two pieces of an answer (and mem0's own client that to 300 s). So a
    request runs in a thread of its own, which is left behind when the time is over.
    """

    def __init__(self, timeout: float) -> None:
        """Set the seconds that a request may take."""
        super().__init__(timeout=timeout)
        self._seconds = timeout

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:  # noqa: ANN401 - httpx's own options
        """Send a request and return its answer, read to the end.

        Raises:
            httpx.ReadTimeout: it did not end in time.
        """
        sending = _in_thread(lambda: super(DeadlineClient, self).send(request, **options))
        try:
            return sending.result(self._seconds)
        except TimeoutError:
            raise httpx.ReadTimeout("the answer did not end in time", request=request) from None


def _in_thread(action: Callable[[], httpx.Response]) -> Future[httpx.Response]:
    """Run an action in a thread that does not keep the process from ending."""
    future: Future[httpx.Response] = Future()

    def run() -> None:
        try:
            future.set_result(action())
        except BaseException as error:  # noqa: BLE001 - it belongs to who waits for the result
            future.set_exception(error)

    threading.Thread(target=run, name="mem0 request", daemon=True).start()
    return future
