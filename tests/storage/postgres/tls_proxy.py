"""TLS in front of a PostgreSQL server that was built without it: a proxy that a client cannot tell from the server."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from typing import Final

from tests.listener import Listener

_SSL_REQUEST: Final = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"


class TlsProxy:
    """Accepts clients that ask for TLS, and passes on what they say to a port of 127.0.0.1."""

    def __init__(self, target: int, context: ssl.SSLContext) -> None:
        self._target, self._context = target, context
        self.refused = 0
        """Number of clients that did not ask for TLS, or broke the handshake off."""
        self._listener = Listener(self._serve)
        self.port = self._listener.port

    def _serve(self, client: socket.socket) -> None:
        if client.recv(8) != _SSL_REQUEST:
            self.refused += 1
            client.close()
            return
        client.sendall(b"S")
        try:
            secured = self._context.wrap_socket(client, server_side=True)
        except OSError:
            self.refused += 1
            client.close()
            return
        with secured, socket.create_connection(("127.0.0.1", self._target)) as server:
            answers = threading.Thread(target=_pass_on, args=(server, secured))
            answers.start()
            _pass_on(secured, server)
            answers.join()

    def close(self) -> None:
        """Accept no client any more."""
        self._listener.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
