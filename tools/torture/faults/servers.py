"""An embedding server that misbehaves: no write is lost or hangs, and every item is embedded later."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Final

from devmem import load_workflow
from devmem.errors import EmbeddingMismatchError
from devmem.models import open_embedder
from devmem.stores import CollectionMemory, MemoryQuery
from devmem.workflow import make_store
from tools.torture.judge import check_items
from tools.torture.results import Plan, Result
from tools.torture.stores import payload

_LONGEST: Final = 35.0
"""Seconds after which a write counts as hanging: the timeout of a request, and 30 s for repeating it."""
_DIMENSION: Final = 8
_WORKFLOW: Final = """\
memory:
  - name: tortured
    type: simple
    config:
      memory_path: store.db
      embedding: {{provider: openai, model: hash, api_key: unused, base_url: "{url}", params: {{timeout: 1.0}}}}
"""


class _Server(BaseHTTPRequestHandler):
    """Answers as `behaviour` says."""

    behaviour = "good"
    stopping = Event()

    def do_POST(self) -> None:
        """Answer a request for embeddings."""
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        row = [1.0, *([0.5] * (_DIMENSION - 1))]
        good = json.dumps({"data": [{"index": n, "embedding": row} for n, _ in enumerate(texts)], "model": "hash"})
        bodies: dict[str, Callable[[], bytes]] = {
            "good": good.encode,
            "500": lambda: b"oh",
            "not JSON": lambda: b"<html>",
            "nested": lambda: b"[" * 100_000,
            "cut off": lambda: good.encode()[: len(good) // 2],
            "NaN": lambda: good.replace("1.0", "NaN").encode(),
            "too few": lambda: b'{"data": [], "model": "hash"}',
            "zeros": lambda: good.replace("1.0", "0.0").replace("0.5", "0.0").encode(),
            "other length": lambda: good.replace("1.0, ", "").encode(),
            "huge": lambda: good.replace("1.0", "1e39").encode(),
            "drip": good.encode,
            "silent": good.encode,
        }
        self._send(type(self).behaviour, bodies[type(self).behaviour]())

    def _send(self, behaviour: str, body: bytes) -> None:
        if behaviour == "silent":
            type(self).stopping.wait(30)
            return
        self.send_response(500 if behaviour == "500" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) + (10 if behaviour == "cut off" else 0)))
        self.end_headers()
        if behaviour != "drip":
            self.wfile.write(body)
            return
        for at in range(len(body)):
            if type(self).stopping.wait(0.2):
                return
            self.wfile.write(body[at : at + 1])
            self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


BEHAVIOURS: Final = (
    # The first ones are answered at once, and not asked again.
    *("not JSON", "nested", "NaN", "zeros", "huge", "too few", "other length", "500", "cut off", "silent", "drip"),
)


def run(plan: Plan) -> list[Result]:
    """Write while the server misbehaves in each way, then let it recover."""
    result = Result(fault="server that misbehaves")
    ways = BEHAVIOURS[:5] if plan.short else BEHAVIOURS
    with _serving() as (server, url):
        for way in ways:
            _write_through(plan.folder / f"server-{way.replace(' ', '-')}", server, url, way, result)
    return [result]


@contextmanager
def _serving() -> Iterator[tuple[type[_Server], str]]:
    class Handler(_Server):
        stopping = Event()

    service = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.daemon_threads = True
    thread = Thread(target=service.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Handler, f"http://127.0.0.1:{service.server_port}/v1"
    finally:
        Handler.stopping.set()
        service.shutdown()
        service.server_close()
        thread.join()


def _write_through(folder: Path, server: type[_Server], url: str, way: str, result: Result) -> None:
    folder.mkdir()
    (folder / "workflow.yaml").write_text(_WORKFLOW.format(url=url), encoding="utf-8")
    server.behaviour = "good"
    acknowledged: set[str] = set()
    store = make_store(load_workflow(folder / "workflow.yaml"), "tortured", embedders=open_embedder)
    try:
        assert isinstance(store, CollectionMemory)
        store.load()
        for number in range(4):
            token = f"w{number}x5"
            server.behaviour = way if number else "good"
            started = time.monotonic()
            try:
                store.update(payload(token))
            except EmbeddingMismatchError:
                # Vectors of another length are another model's: a refusal is right, and nothing is acknowledged.
                continue
            acknowledged.add(token)
            if (took := time.monotonic() - started) > _LONGEST:
                result.fail("unrecovered", f"{way}: a write took {took:.0f} s")
            if not store.search(MemoryQuery(text=token, limit=1)):
                result.fail("wrong", f"{way}: {token} is not found by its words")
        check_items(store, acknowledged, result, way)
    except Exception as error:  # noqa: BLE001 - whatever a server makes of a write is the finding
        result.fail("unrecovered", f"{way}: {type(error).__name__}: {str(error)[:100]}")
    finally:
        store.close()
    server.behaviour = "good"
    result.tried += 1
    result.acknowledged += len(acknowledged)
    # As in another process: in this one, a service that kept callers waiting is not asked again for a while.
    fresh = partial(open_embedder, shared=False)
    again = make_store(load_workflow(folder / "workflow.yaml"), "tortured", embedders=fresh)
    try:
        assert isinstance(again, CollectionMemory)
        again.load()
        again.save()
        if waiting := again.collection.info().waiting:
            result.fail("unrecovered", f"{way}: {waiting} items still wait for their embedding")
    finally:
        again.close()
