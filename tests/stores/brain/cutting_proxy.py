"""A connection to Redis that breaks after a transaction was made and before its answer arrives."""

from __future__ import annotations

import socket

from tests.listener import Listener


class CuttingProxy:
    """Passes everything on; while `cuts` is positive, an EXEC costs the connection, and the server has done it."""

    def __init__(self, port: int) -> None:
        self.cuts = 0
        self._target = port
        self._listener = Listener(self._serve)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listener.port}"

    def close(self) -> None:
        self._listener.close()
        for thread in self._listener.clients:
            thread.join()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as server:
            while asked := client.recv(1 << 20):
                server.sendall(asked)
                answer = server.recv(1 << 20)
                if self.cuts > 0 and b"EXEC" in asked:
                    self.cuts -= 1
                    return
                client.sendall(answer)
