"""A port of 127.0.0.1 whose clients have a thread each: what the tests' proxies stand on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class Listener:
    """Accepts clients until it is closed."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        """Start; `serve` is called in a thread of its own for each client."""
        self._serve = serve
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.clients: list[threading.Thread] = []
        """A thread for each client that was accepted."""
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                self.clients.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
                self.clients[-1].start()

    def close(self) -> None:
        """Accept no client any more."""
        # Closing ends `accept` on macOS, which refuses the shutdown that ends it on Linux.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._accepting.join(timeout=30)
