"""mem0's service, or a server that speaks its API, through mem0's own client.

Requests as `mem0/client/main.py` of mem0ai 2.0.0 to 2.2.1 makes them: `GET /v1/ping/` when it is constructed,
`POST /v3/memories/add/`, `POST /v3/memories/search/`, `POST /v3/memories/?page=&page_size=`, `GET` and `DELETE
/v1/memories/{id}/`, `GET /v1/memories/{id}/history/`, `DELETE /v1/memories/?user_id=`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from pydantic import JsonValue

from devmem.errors import Mem0Error, Mem0RejectedError
from devmem.models.http_client import guarded_client
from devmem_stores.mem0.backend import PAGE, EntityIds, Page, Write
from devmem_stores.mem0.config import SERVICE, Mem0Config
from devmem_stores.mem0.failures import translated_errors
from devmem_stores.mem0.in_process import load_mem0
from devmem_stores.mem0.items import Record, read_record, read_records


class HostedMem0:
    """mem0 behind HTTP; every method raises `Mem0Error`. Safe to use from several threads."""

    def __init__(self, config: Mem0Config, folder: Path | None, client: object = None) -> None:
        """Prepare the connection.

        Args:
            config: key and address.
            folder: takes the files that mem0 keeps about itself; None makes a temporary one.
            client: mem0's client, which the caller made and closes; None makes one when it is needed.
        """
        self._config, self._folder, self._given = config, folder, client is not None
        self._lock = threading.Lock()
        self._opened: Any = client

    @property
    def location(self) -> str:
        """Return the server's address."""
        return self._config.host or SERVICE

    def _client(self, operation: str) -> Any:  # noqa: ANN401 - mem0 is imported when it is needed
        """Return the client; the first call opens it, which asks the server whether the key is good."""
        with self._lock:
            if self._opened is None:
                mem0 = load_mem0(telemetry=self._config.telemetry, folder=self._folder)
                http = guarded_client(httpx.Client, self._config.timeout)
                try:
                    self._opened = self._connected(mem0, http, operation)
                except BaseException:
                    http.close()
                    raise
            return self._opened

    def _connected(self, mem0: Any, http: httpx.Client, operation: str) -> Any:  # noqa: ANN401 - see `_client`
        """Return a client whose key leads to the project that the configuration names.

        mem0 2.x takes the ids of neither project nor organisation: the server knows them by the key, and the ping tells
        them.
        """
        key = self._config.api_key.get_secret_value() if self._config.api_key else ""
        try:
            with translated_errors(operation):
                client = mem0.MemoryClient(api_key=key, host=self.location, client=http)
        except Mem0RejectedError as error:
            # A `ValueError` too: `Project` wants the two ids that the ping of the platform tells.
            detail = f"{self.location} does not answer GET /v1/ping/ as the mem0 platform does ({error.detail})"
            raise Mem0Error("setup", operation, detail) from None
        except Mem0Error as error:
            if error.kind != "unknown":
                raise
            # An `AttributeError`, as `_validate_api_key` takes the ping's answer for a mapping without looking.
            detail = f"the answer to the ping is malformed: {error.detail}"
            raise Mem0Error("answer", operation, detail) from None
        for name in ("org_id", "project_id"):
            wanted, actual = getattr(self._config, name), getattr(client, name, None)
            if wanted is not None and wanted != actual:
                detail = (
                    f"`{name}` is {wanted!r}, but the key belongs to {actual!r}. The mem0 client 2.x finds both by "
                    f"the key alone: take the key of that project, or take `{name}` out"
                )
                raise Mem0Error("setup", operation, detail)
        return client

    def _ask(self, operation: str, verb: str, *arguments: object, **options: object) -> Any:  # noqa: ANN401 - JSON
        client = self._client(operation)
        with translated_errors(operation):
            return getattr(client, verb)(*arguments, **options)

    def search(self, text: str, ids: EntityIds, top_k: int, threshold: float | None) -> list[Record]:
        """Search; without a threshold the server's own applies."""
        limit = {} if threshold is None else {"threshold": threshold}
        answer = self._ask("search", "search", text, filters=_filters(ids), top_k=top_k, **limit)
        return read_records(answer, "search")

    def add(self, write: Write) -> str | None:
        """Add one message of the user; return the first memory's id, None while the server still works on it."""
        messages = [{"role": "user", "content": write.text}]
        more = {**write.ids.given(), **({} if write.timestamp is None else {"timestamp": write.timestamp})}
        metadata = dict(write.metadata)
        answer = self._ask("add", "add", messages=messages, infer=write.infer, metadata=metadata, **more)
        if not isinstance(answer, (dict, list)):
            detail = "the answer is malformed: neither a mapping nor a list"
            raise Mem0Error("answer", "add", detail, maybe_done=True)
        made = answer.get("results") if isinstance(answer, dict) else answer
        first = made[0] if isinstance(made, list) and made else None
        return str(first["id"]) if isinstance(first, dict) and first.get("id") else None

    def page(self, ids: EntityIds, number: int, metadata: Mapping[str, str] | None = None) -> Page:
        """Return one page."""
        operation = "list memories"
        # Both, always: 2.0.0 sends neither as a query parameter unless it has both.
        answer = self._ask(operation, "get_all", filters=_filters(ids, metadata), page=number, page_size=PAGE)
        records = read_records(answer, operation)
        total = answer.get("count") if isinstance(answer, dict) else None
        return Page(
            records=tuple(records),
            total=total if isinstance(total, int) else len(records),
            more=isinstance(answer, dict) and bool(answer.get("next")) and bool(records),
        )

    def get(self, memory_id: str) -> Record | None:
        """Return one memory."""
        raw = self._unless_missing("get", memory_id)
        return None if raw is None else read_record(raw, "get")

    def delete(self, memory_id: str) -> bool:
        """Delete one memory."""
        return self._unless_missing("delete", memory_id) is not None

    def _unless_missing(self, verb: str, memory_id: str) -> Any:  # noqa: ANN401 - JSON
        try:
            return self._ask(verb, verb, memory_id)
        except Mem0Error as error:
            if error.status == 404:
                return None
            raise

    def delete_all(self, ids: Mapping[str, str]) -> None:
        """Delete every memory that has all of the ids."""
        if not ids:  # mem0 takes that for the whole project
            raise Mem0Error("setup", "delete all", "no id says whose memories are meant")
        self._ask("delete all", "delete_all", **ids)

    def close(self) -> None:
        """Close the connections, unless they are the caller's."""
        with self._lock:
            if self._opened is not None and not self._given:
                self._opened.client.close()
                self._opened = None


def _filters(ids: EntityIds, metadata: Mapping[str, str] | None = None) -> dict[str, JsonValue]:
    """Write a filter as the platform takes it: one id, `OR` of user and agent, `AND` with anything more."""
    conditions: list[JsonValue] = [{name: value} for name, value in ids.given().items() if name != "run_id"]
    if len(conditions) > 1:
        conditions = [dict[str, JsonValue](OR=conditions)]
    if ids.run_id is not None:
        conditions.insert(0, {"run_id": ids.run_id})
    for key, value in (metadata or {}).items():
        conditions.append({"metadata": {key: value}})
    only = conditions[0] if len(conditions) == 1 else None
    return only if isinstance(only, dict) else {"AND": conditions}
