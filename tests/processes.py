"""Processes of tests that run a script, forked from one that has imported devmem and what it is made of.

Importing them takes most of the CPU time of a script. Nothing is open and no thread runs in the process that is
forked, so that a script can tell it from a new interpreter by its loaded modules alone. Tests of imports and of the
command line start an interpreter.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final, Protocol

_PRELOADED: Final = (
    "devmem.memory.opening",
    "devmem.models",
    "devmem.storage.json_file",
    "devmem.storage.sqlite.collection",
    "devmem.testing",
    "devmem_stores.brain",
    "devmem_stores.file",
    "devmem_stores.simple",
    "faiss",
)
_LONGEST: Final = 1 << 17
"""Bytes of a request, most of which are environment variables."""


class Script(Protocol):
    """A running script, as `subprocess.Popen` has it."""

    stdin: IO[str] | None
    stdout: IO[str] | None
    returncode: int | Any

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...


class _Forked:
    """A script in a process that is a child of another one, which reports its end."""

    def __init__(self, status: int, stdin: int, stdout: int) -> None:
        self.stdin: IO[str] | None = open(stdin, "w", encoding="utf-8")  # noqa: SIM115
        self.stdout: IO[str] | None = open(stdout, encoding="utf-8")  # noqa: SIM115
        self._status = open(status, encoding="ascii")  # noqa: SIM115
        self.returncode: int | Any = None
        self.pid = int(self._status.readline())

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            with self._status:
                self.returncode = int(self._status.readline())
        return None if self.returncode is None else int(self.returncode)


class ForkServer:
    """The process that scripts are forked from; it starts with the first script."""

    def __init__(self) -> None:
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, script: Path | str, arguments: Sequence[str], environment: dict[str, str]) -> Script:
        """Run a file, or a text as `python -c` does."""
        if self._channel is None:
            self._channel = self._started(environment)
        request = json.dumps([str(script), isinstance(script, str), list(arguments), environment, str(Path.cwd())])
        (stdin, to_stdin), (from_stdout, stdout), (ends, status) = os.pipe(), os.pipe(), os.pipe()
        try:
            socket.send_fds(self._channel, [request.encode()], [stdin, stdout, 2, status])
        finally:
            for descriptor in (stdin, stdout, status):
                os.close(descriptor)
        return _Forked(ends, to_stdin, from_stdout)

    def close(self) -> None:
        """End the process, which waits for those of its scripts."""
        if self._channel is not None and self._process is not None:
            self._channel.close()
            self._process.wait()

    def _started(self, environment: dict[str, str]) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment, pass_fds=[theirs.fileno()],
            )  # fmt: skip
        return ours


def _next_request(channel: socket.socket) -> list[Any]:
    """Return a request in a process that was forked for it; the process that forks ends in here."""
    while True:
        message, descriptors, *_ = socket.recv_fds(channel, _LONGEST, 4)
        if not message:
            _wait_for_children(0)
            os._exit(0)
        assert threading.active_count() == 1, "a fork would lose the other threads"
        if os.fork() == 0:
            channel.close()
            _fork_script(descriptors)
            return list(json.loads(message))
        for descriptor in descriptors:
            os.close(descriptor)
        _wait_for_children(os.WNOHANG)


def _fork_script(descriptors: list[int]) -> None:
    """Fork once more, and return in the new process alone; this one reports how that one ends."""
    *standard, status = descriptors
    if (script := os.fork()) == 0:
        os.close(status)
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
            os.close(descriptor)
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for descriptor in standard:
        os.close(descriptor)
    os.write(status, f"{script}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(script, 0)[1])
    try:
        os.write(status, f"{code}\n".encode())
    finally:
        # Nobody may ask any more.
        os._exit(0)


def _wait_for_children(options: int) -> None:
    try:
        while os.waitpid(-1, options)[0]:
            pass
    except ChildProcessError:
        return


def _run(script: str, is_code: bool, arguments: list[str], environment: dict[str, str], folder: str) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c" if is_code else script, *arguments]
    sys.path.insert(0, "" if is_code else str(Path(script).parent))
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    if not is_code:
        main.__file__ = script
    code = script if is_code else Path(script).read_text(encoding="utf-8")
    exec(compile(code, "<string>" if is_code else script, "exec"), vars(main))


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _channel:
        for _module in _PRELOADED:
            importlib.import_module(_module)
        # A script that ends would look through all of it, and copy the memory that it shares.
        gc.collect()
        gc.freeze()
        _asked = _next_request(_channel)
    _run(*_asked)
