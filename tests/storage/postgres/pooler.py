"""A connection pooler in front of a PostgreSQL server, as PgBouncer is one: by session, or by transaction."""

from __future__ import annotations

import select
import socket
import struct
from contextlib import closing, suppress
from queue import LifoQueue
from typing import Final

from tests.listener import Listener

_HEAD: Final = struct.Struct(">cI")
_KEY, _READY, _END = b"K", b"Z", b"X"
_ENCRYPTION: Final = (struct.pack(">I", 80877103), struct.pack(">I", 80877104))
"""Requests of TLS and GSSAPI."""


class _Session:
    """A connection to the server."""

    def __init__(self, server: str, start: bytes) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(server)
        self.socket.sendall(start)
        self._read = self.greeting = b""
        while not self.greeting.endswith(_HEAD.pack(_READY, 5) + b"I"):
            self.greeting += self._answers()[0]

    def answer(self, client: socket.socket) -> bool:
        """Pass on answers that have come; return whether the session now waits outside of a transaction."""
        answers, is_idle = self._answers()
        client.sendall(answers)
        return is_idle

    def _answers(self) -> tuple[bytes, bool]:
        part = self.socket.recv(1 << 16)
        if not part:
            raise ConnectionResetError
        self._read += part
        answers, is_idle = b"", False
        while len(self._read) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._read)
            if len(self._read) <= length:
                break
            content, self._read = self._read[_HEAD.size : length + 1], self._read[length + 1 :]
            # Process and key: every client is told others.
            answers += _HEAD.pack(kind, length) + (bytes(length - 4) if kind == _KEY else content)
            is_idle = kind == _READY and content == b"I"
        return answers, is_idle


class Pooler:
    """Passes on what clients of a port of 127.0.0.1 say to a server's socket."""

    def __init__(self, server: str, *, by_transaction: bool) -> None:
        """Accept clients, which need no password.

        Args:
            server: path of the server's unix socket.
            by_transaction: whether a session goes back when a transaction ends, and not only with its client.
        """
        self._server, self._by_transaction = server, by_transaction
        self._all: list[_Session] = []
        self._idle: LifoQueue[_Session] = LifoQueue()
        self._listener = Listener(self._serve)
        self.port = self._listener.port

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), closing(client):
            start = _packet(client)
            while start[4:] in _ENCRYPTION:
                client.sendall(b"N")
                start = _packet(client)
            if self._by_transaction:
                session = self._connected(start) if self._idle.empty() else self._idle.get()
                client.sendall(session.greeting)
                self._idle.put(session)
                self._lend(client)
            else:
                session = self._connected(start)
                client.sendall(session.greeting)
                with closing(session.socket):
                    _relay(client, session, until_idle=False)

    def _connected(self, start: bytes) -> _Session:
        session = _Session(self._server, start)
        self._all.append(session)
        return session

    def _lend(self, client: socket.socket) -> None:
        """Relay each transaction in the session that went back last."""
        is_there = True
        while is_there:
            select.select([client], [], [])
            session = self._idle.get()
            is_there = _relay(client, session, until_idle=True)
            self._idle.put(session)

    def close(self) -> None:
        """End all connections; those of clients are closed by then."""
        self._listener.close()
        for client in self._listener.clients:
            client.join(timeout=30)
        for session in self._all:
            session.socket.close()


def _relay(client: socket.socket, session: _Session, *, until_idle: bool) -> bool:
    """Pass on what both say; return whether the client is still there."""
    while True:
        readable, _, _ = select.select([client, session.socket], [], [])
        if client in readable:
            said = client.recv(1 << 16)
            if not said or said[:1] == _END:
                return False
            session.socket.sendall(said)
        if session.socket in readable and session.answer(client) and until_idle:
            return True


def _packet(client: socket.socket) -> bytes:
    """Return what a client says first."""
    head = client.recv(4, socket.MSG_WAITALL)
    return head + client.recv(int.from_bytes(head) - 4, socket.MSG_WAITALL)
