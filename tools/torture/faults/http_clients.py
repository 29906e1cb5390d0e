"""Services that answer without end, packed, drop by drop, from elsewhere, or with the request itself.

Every client of devmem is held to the same: it ends in time, takes little memory, keeps the write, and puts no text
into logs and errors, nor to another address.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Final

from pydantic import SecretStr

import devmem
from devmem import DevmemError, MemoryContentSnapshot, MemoryWritePayload, load_workflow
from devmem.errors import ChatModelError
from devmem.model.message import Message, Role
from devmem.models import ChatRequest
from devmem.models.openai_chat import OpenAIChat
from devmem.stores import MemoryQuery
from devmem.workflow import make_store
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.results import Plan, Result

_LONGEST: Final = 120.0
"""Seconds after which a client counts as hanging: it repeats several calls, on a machine that may be busy."""
_MEMORY: Final = 1 << 30
"""Address space that a client may add."""
_RESIDENT: Final = 200 << 20
"""Memory that it may take in fact."""
_SECRET: Final = "Quillfeather"
_SPACES: Final = b" " * (1 << 16)
_TIMEOUT: Final = 1.0

Send = Callable[[str], None]


class _Handler(BaseHTTPRequestHandler):
    """Answers in the way that the request's path begins with."""

    elsewhere = ""
    bomb = gzip.compress(bytes(200_000_000), compresslevel=1)

    def do_GET(self) -> None:
        """Answer mem0's ping as mem0 does, unless that is what is to be tried."""
        if self.path.endswith("/v1/ping/"):
            self._answer(200, json.dumps({"status": "ok", "org_id": "o", "project_id": "p"}).encode())
        else:
            self._misbehave()

    def do_POST(self) -> None:
        """Misbehave."""
        self._misbehave()

    def _misbehave(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        _, way, *_ = self.path.split("/")
        try:
            _WAYS[way](self)
        except OSError:
            # The client has hung up, as it should.
            self.close_connection = True

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.begin(status, content_length=str(len(body)), **headers)
        self.wfile.write(body)

    def begin(self, status: int, **headers: str) -> None:
        """Send the head of an answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def endless(self) -> None:
        """Send spaces until the client hangs up."""
        self.begin(200, content_type="application/json")
        while True:
            self.wfile.write(_SPACES)

    def packed(self) -> None:
        """Send a few kilobytes that become 200 MB."""
        self._answer(200, self.bomb, content_type="application/json", content_encoding="gzip")

    def drip(self) -> None:
        """Send a byte now and then."""
        self.begin(200, content_type="application/json")
        while True:
            self.wfile.write(b" ")
            time.sleep(0.2)

    def drip_head(self) -> None:
        """Send the head of the answer so."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
        while True:
            self.wfile.write(b"a")
            time.sleep(0.2)

    def redirect(self) -> None:
        """Name another origin, which would get the texts."""
        self._answer(307, b"", location=f"{self.elsewhere}{self.path}")

    def echo_401(self) -> None:
        """Refuse the key with the request in the answer."""
        self._answer(401, b'{"error": {"message": ' + json.dumps(self.body.decode()).encode() + b"}}")

    def echo_500(self) -> None:
        """Fail with the request in the answer."""
        self._answer(500, b"<pre>" + self.body + b"</pre>", content_type="text/html")

    def nested(self) -> None:
        """Answer with what no parser should follow."""
        self._answer(200, b"[" * 500_000, content_type="application/json")

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the name of the base class
        """Print nothing."""


_WAYS: Final[dict[str, Callable[[_Handler], None]]] = {
    "endless": _Handler.endless,
    "packed": _Handler.packed,
    "redirect": _Handler.redirect,
    "echo-401": _Handler.echo_401,
    "echo-500": _Handler.echo_500,
    "nested": _Handler.nested,
    "drip": _Handler.drip,
    "drip-head": _Handler.drip_head,
}


def run(plan: Plan) -> list[Result]:
    """Try each client with each way; every one in a process of its own."""
    result = Result(fault="http_clients")
    # Loaded before the processes are forked: each would take seconds for it.
    for library in ("openai", "mem0"):
        import_module(library)
    # The others take their time, as clients try again.
    ways = [*_WAYS][:5] if plan.short else [*_WAYS]
    with Child(_collect) as elsewhere:
        (there,) = elsewhere.wait_for_lines(1, 30)
        with Child(partial(_serve, there)) as service:
            (address,) = service.wait_for_lines(1, 30)
            for name, client in _CLIENTS.items():
                for way in ways:
                    folder = plan.folder / f"http-{name}-{way}"
                    folder.mkdir()
                    _try(folder, client, f"{address}/{way}", f"{name}, {way}", result)
        for line in elsewhere.kill()[1:]:
            result.fail("leaked", f"another address was sent {line}")
    return [result]


def _serve(elsewhere: str, send: Send) -> None:
    class Handler(_Handler):
        pass

    Handler.elsewhere = elsewhere
    _run_server(Handler, send)


def _collect(send: Send) -> None:
    """Report every request, as nothing is to be sent here."""

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            send(f"{self.path} {self.rfile.read(int(self.headers.get('Content-Length') or 0))[:100]!r}")
            self.send_response(500)
            self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the name of the base class
            """Print nothing."""

    _run_server(Collector, send)


def _run_server(handler: type[BaseHTTPRequestHandler], send: Send) -> None:
    service = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    service.daemon_threads = True
    send(f"http://127.0.0.1:{service.server_port}")
    service.serve_forever()


def _try(folder: Path, client: Client, address: str, where: str, result: Result) -> None:
    started = time.monotonic()
    with Child(partial(_limited, client, folder, address)) as child:
        # One line more than there are: until the process ends.
        child.wait_for_lines(100, 2 * _LONGEST)
        said = child.kill() if not child.ended else child.finish()
    took = time.monotonic() - started
    result.tried += 1
    result.acknowledged += said.count("kept")
    if child.status == EXIT_FAILED or "kept" not in said:
        result.fail("lost", f"{where}: the write was not kept: {said[-2:]}, {child.status}")
    if took > _LONGEST:
        result.fail("unrecovered", f"{where}: it took {took:.0f} s")
    for line in said:
        if line.startswith("leaked"):
            result.fail("leaked", f"{where}: {line}")
        elif line.startswith("grown") and int(line.split()[1]) > _RESIDENT:
            result.fail("unrecovered", f"{where}: it took {int(line.split()[1]) >> 20} MiB")


def _limited(client: Client, folder: Path, address: str, send: Send) -> None:
    """Run a client with bounded memory; report what it says in errors and logs."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, resource.RLIM_INFINITY))
    with _watched_logs(send):
        try:
            client(folder, address, send)
        except DevmemError as error:
            if _SECRET in str(error):
                send(f"leaked by the error {error}")
    send(f"grown {(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10}")


@contextmanager
def _watched_logs(send: Send) -> Iterator[None]:
    """Report a log record with a text of the memory."""

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if _SECRET in self.format(record):
                send(f"leaked by {record.name}: {record.getMessage()[:100]}")

    root, watch = logging.getLogger(), Watch(logging.INFO)
    root.addHandler(watch)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(watch)


def _embedding(folder: Path, address: str, send: Send) -> None:
    """Add an item whose embedding fails; it is found by its words, now and by whoever opens the file next."""
    params = {"timeout": _TIMEOUT, "max_retries": 1}
    block = {"provider": "openai", "model": "m", "api_key": "k", "base_url": f"{address}/v1", "params": params}
    with devmem.open(folder / "notes.db", embedding=block) as memory:
        added = memory.add(f"{_SECRET} moved the launch.")
        found = [hit.id for hit in memory.search(_SECRET)]
    with devmem.open(folder / "notes.db", embedding=block) as memory:
        if found == [added] and memory.get(added) is not None:
            send("kept")


_RERANKED: Final = """\
memory:
  - name: notes
    type: simple
    config:
      memory_path: notes.db
      retrieval:
        reranker: {{type: llm, model: m, api_key: k, base_url: "{address}/v1", timeout: 1.0}}
"""


def _reranking(folder: Path, address: str, send: Send) -> None:
    """Search with a reranker that asks a chat model; what the search itself found is returned."""
    (folder / "team.yaml").write_text(_RERANKED.format(address=address), encoding="utf-8")
    with devmem.open(f"{folder / 'team.yaml'}#notes") as memory:
        memory.add([f"{_SECRET} moved the launch.", f"{_SECRET} moved the office."])
        if len(memory.search(f"{_SECRET} launch")) == 2:
            send("kept")


def _chat(_folder: Path, address: str, send: Send) -> None:
    """Ask a chat model; whoever asks gets an error, and has the question still."""
    chat = OpenAIChat("m", api_key=SecretStr("k"), base_url=f"{address}/v1", timeout=_TIMEOUT, max_retries=0)
    try:
        chat.complete(ChatRequest(messages=(Message(content=f"{_SECRET}?", role=Role.USER),)))
    except ChatModelError:
        send("kept")
        raise


def _mem0(folder: Path, address: str, send: Send) -> None:
    """Write to a mem0 server that never takes it; the outbox keeps the write."""
    (folder / "team.yaml").write_text(_MEM0.format(address=address), encoding="utf-8")
    store = make_store(load_workflow(folder / "team.yaml"), "away")
    try:
        store.load()
        try:
            store.update(
                MemoryWritePayload(inputs_text=f"{_SECRET}?", output_snapshot=MemoryContentSnapshot(text="Yes."))
            )
        finally:
            _search_away(store)
    finally:
        store.close()
    kept = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.suffix != ".yaml")
    if _SECRET.encode() in kept:
        send("kept")


def _search_away(store: devmem.MemoryBase) -> None:
    try:
        store.search(MemoryQuery(text=_SECRET))
    except DevmemError as error:
        if _SECRET in str(error):
            raise


_MEM0: Final = """\
memory:
  - name: away
    type: mem0
    config: {{api_key: m0-key, user_id: ann, host: "{address}", timeout: 1.0, retries: 0, infer: false}}
"""

Client = Callable[[Path, str, Send], None]
_CLIENTS: Final[dict[str, Client]] = {
    "embedding": _embedding,
    "chat": _chat,
    "reranking": _reranking,
    "mem0": _mem0,
}
