"""A connection to Redis that breaks after a transaction was made and before its answer arrives."""

from __future__ import annotations

import socket
import threading


class CuttingProxy:
    """Passes everything on; while `cuts` is positive, an EXEC costs the connection, and the server has done it."""

    def __init__(self, port: int) -> None:
        self.cuts = 0
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                # Closed: the test is over.
                return
            self._threads.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
            self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as server:
            while asked := client.recv(1 << 20):
                server.sendall(asked)
                answer = server.recv(1 << 20)
                if self.cuts > 0 and b"EXEC" in asked:
                    self.cuts -= 1
                    return
                client.sendall(answer)
