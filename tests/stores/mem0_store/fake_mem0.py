"""A server on the loopback address that answers mem0's REST API as the client of mem0ai 2.0.0 to 2.2.1 calls it.

Paths and payloads are those of `mem0/client/main.py`: `_validate_api_key`, `add`, `search`, `get_all`, `get`, `delete`,
`delete_all`. Error bodies are what `mem0/client/utils.py:api_error_handler` reads: JSON with `detail`.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

KEY = "m0-very-secret-0123456789"

JsonObject = dict[str, Any]


@dataclass
class Seen:
    """A request that the server got."""

    method: str
    path: str
    query: dict[str, str]
    body: JsonObject
    headers: Mapping[str, str]


@dataclass
class Fault:
    """A thing that the server does once instead of answering properly, or after having done its work."""

    kind: str
    """`status`, `body`, `hang`, `cut` (within the answer) or `drop` (before it)."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    path: str = ""
    """Only requests whose path begins so; empty means all but the ping."""
    after_work: bool = False
    """The request is carried out before it fails."""

    def meets(self, seen: Seen) -> bool:
        return seen.path.startswith(self.path) if self.path else seen.path != "/v1/ping/"


def failure(
    status: int, detail: str = "not today", *, after_work: bool = False, path: str = "", **headers: str
) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = json.dumps({"detail": detail}).encode()
    return Fault("status", status, named, body, path=path, after_work=after_work)


class FakeMem0:
    """Keeps memories in a list; the newest stands last."""

    def __init__(self) -> None:
        self.memories: list[JsonObject] = []
        self.requests: list[Seen] = []
        self.faults: list[Fault] = []
        self.keys = {KEY}
        self.ping: Any = {"status": "ok", "org_id": "org-1", "project_id": "proj-1", "user_email": "ann@example.org"}
        self.knows_metadata_filters = True
        self.repeats_its_last_page = False
        self.answers_key = "results"
        self.queues_writes = False
        """Answer as the platform does: the memories are made later, their ids are not told."""
        self.before_each: Callable[[Seen], None] = lambda _: None
        self.now = datetime(2024, 5, 1, 12, tzinfo=UTC)
        self._lock = Lock()
        self._closing = Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def notify_at(self, path: str) -> Event:
        """Return an event that is set when a request for the path arrives."""
        arrived = Event()
        self.before_each = lambda seen: arrived.set() if seen.path.startswith(path) else None
        return arrived

    def called(self, path: str, method: str | None = None) -> list[Seen]:
        return [seen for seen in self.requests if seen.path.startswith(path) and method in (None, seen.method)]

    def texts(self) -> list[str]:
        return [memory["memory"] for memory in self.memories]

    def remember(self, text: str, **more: Any) -> JsonObject:
        """Put a memory there without a request."""
        memory = {
            "id": str(uuid.uuid4()),
            "memory": text,
            "created_at": self.now.isoformat(),
            "updated_at": self.now.isoformat(),
            "metadata": None,
            "categories": [],
            **more,
        }
        self.memories.append(memory)
        return memory

    def answer(self, seen: Seen) -> tuple[int, Any]:
        if seen.headers.get("Authorization") not in {f"Token {key}" for key in self.keys}:
            sent = seen.headers.get("Authorization", "")
            return 401, {"detail": f"Invalid API key: {sent}"}
        if seen.path == "/v1/ping/":
            return 200, self.ping
        if seen.path == "/v3/memories/add/":
            return self._add(seen.body)
        if seen.path == "/v3/memories/search/":
            return self._search(seen.body)
        if seen.path == "/v3/memories/":
            return self._list(seen)
        if seen.path == "/v1/memories/" and seen.method == "DELETE":
            gone = [m for m in self.memories if all(m.get(k) == v for k, v in seen.query.items())]
            self.memories = [m for m in self.memories if m not in gone]
            return 200, {"message": "Memories deleted successfully!"}
        return self._one(seen)

    def _one(self, seen: Seen) -> tuple[int, Any]:
        found = re.fullmatch(r"/v1/memories/([^/]+)/", seen.path)
        memory = next((m for m in self.memories if found and m["id"] == found[1]), None)
        if memory is None:
            return 404, {"detail": "Memory not found!"}
        if seen.method == "DELETE":
            self.memories.remove(memory)
            return 200, {"message": "Memory deleted successfully!"}
        return 200, memory

    def _add(self, body: JsonObject) -> tuple[int, Any]:
        if not {"user_id", "agent_id", "run_id"} & body.keys():
            return 400, {"detail": "One of the filters: app_id, user_id, agent_id, run_id is required!"}
        text = "\n".join(message["content"] for message in body["messages"])
        if "unstorable" in text:
            return 422, {"detail": "this text is refused"}
        said = re.split(r"(?<=[.!?])\s+", text) if body.get("infer", True) else [text]
        ids: JsonObject = {name: body[name] for name in ("user_id", "agent_id", "run_id") if name in body}
        more: JsonObject = {**ids, "metadata": body.get("metadata")}
        if "timestamp" in body:
            more["created_at"] = datetime.fromtimestamp(body["timestamp"], UTC).isoformat()
        made = [self.remember(fact, **more) for fact in said]
        if self.queues_writes:
            return 200, {"message": "queued", "status": "PENDING", "event_id": str(uuid.uuid4())}
        return 200, {"results": [{"id": m["id"], "memory": m["memory"], "event": "ADD"} for m in made]}

    def _search(self, body: JsonObject) -> tuple[int, Any]:
        asked = set(re.findall(r"\w+", body["query"].lower()))
        scored = []
        for memory in self._matching(body["filters"]):
            words = set(re.findall(r"\w+", memory["memory"].lower()))
            score = len(asked & words) / len(asked)
            if score > 0 and score >= body.get("threshold", 0.0):
                scored.append({**memory, "score": score})
        scored.sort(key=lambda memory: -memory["score"])
        return 200, {self.answers_key: scored[: body["top_k"]]}

    def _list(self, seen: Seen) -> tuple[int, Any]:
        found = self._matching(seen.body["filters"])
        page, size = int(seen.query.get("page", 1)), int(seen.query.get("page_size", 50))
        shown = found[(page - 1) * size : page * size]
        if self.repeats_its_last_page:
            shown = shown or found[-size:]
        is_last = page * size >= len(found) and not self.repeats_its_last_page
        following = None if is_last else f"{self.address}/v3/memories/?page={page + 1}"
        return 200, {"count": len(found), "next": following, "previous": None, "results": shown}

    def _matching(self, filters: JsonObject) -> list[JsonObject]:
        return [memory for memory in self.memories if self._passes(memory, filters)]

    def _passes(self, memory: JsonObject, filters: JsonObject) -> bool:
        for key, value in filters.items():
            if key in ("AND", "OR"):
                if not (all if key == "AND" else any)(self._passes(memory, part) for part in value):
                    return False
            elif key == "metadata":
                stored = memory["metadata"] or {}
                if self.knows_metadata_filters and any(stored.get(k) != v for k, v in value.items()):
                    return False
            elif memory.get(key) != value:
                return False
        return True

    def _take_fault(self, seen: Seen) -> Fault | None:
        fault = next((fault for fault in self.faults if fault.meets(seen)), None)
        if fault is not None:
            self.faults.remove(fault)
        return fault

    def _handler(fake: Self) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - small methods; `self` is the handler's, below
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                seen = self._read()
                fake.before_each(seen)
                with fake._lock:
                    fake.requests.append(seen)
                    fault = fake._take_fault(seen)
                    status, answer = (500, {}) if fault and not fault.after_work else fake.answer(seen)
                if fault is None:
                    self._send(status, {"Content-Type": "application/json"}, json.dumps(answer).encode())
                else:
                    self._fail(fault)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - http.server's names

            def _read(self) -> Seen:
                parts = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                raw = json.loads(body) if body else {}
                return Seen(self.command, parts.path, dict(parse_qsl(parts.query)), raw, dict(self.headers.items()))

            def _fail(self, fault: Fault) -> None:
                self.close_connection = fault.kind not in ("status", "body")
                if fault.kind == "hang":
                    fake._closing.wait()
                elif fault.kind == "cut":
                    self.wfile.write(b'HTTP/1.1 200 Because\r\nContent-Length: 1000\r\n\r\n{"results": [')
                elif fault.kind != "drop":
                    self._send(fault.status, {"Content-Type": "application/json", **fault.headers}, fault.body)

            def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
                lines = [f"HTTP/1.1 {status} Because", *(f"{name}: {value}" for name, value in headers.items())]
                head = "\r\n".join([*lines, f"Content-Length: {len(body)}"])
                # In one piece: a second small packet would wait for the acknowledgement of the first.
                self.wfile.write(head.encode() + b"\r\n\r\n" + body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
