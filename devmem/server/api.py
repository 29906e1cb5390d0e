"""Plain HTTP and JSON over a memory, for programs in any language; the OpenAPI document is made of the same models."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, Field, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from devmem.errors import (
    DevmemError,
    ItemNotFoundError,
    NotStoredError,
    NoVersionsError,
    ScopeError,
    VersionConflictError,
)
from devmem.memory.reading import QUARANTINED
from devmem.model.caller import acting_as
from devmem.model.filters import Filter
from devmem.model.items import LEAST_TRUST, Provenance, SourceKind
from devmem.model.results import WriteOutcome
from devmem.server import requests
from devmem.server.guard import Door, TokenAccess
from devmem.server.requests import MemoryChange, NewMemory, StoredMemory, Text, problems_of

OPENAPI_PATH: Final = "/v1/openapi.json"
"""Path of the description of the interface, for which no token is needed."""
_HTTP_CLIENT: Final = "http"
"""Name under which changes are recorded where no token names somebody."""

M = TypeVar("M", bound=BaseModel)
_ARCHIVED: Final = "Archived memories instead, which nothing else returns."


class NewMemories(requests.RequestModel):
    """Texts to remember, each with what is known of it."""

    memories: list[NewMemory] = Field(min_length=1, max_length=100)


class NewMessage(requests.RequestModel):
    """A message of a conversation."""

    role: str = Field(min_length=1, max_length=100, description="Such as `user`, `assistant`, `tool` or `system`.")
    content: Text
    name: str | None = Field(default=None, max_length=200, description="Name of who said it.")
    id: str | None = Field(default=None, max_length=200, description="Its own id, by which it is known again.")


class NewMessages(requests.RequestModel):
    """Messages to remember, oldest first."""

    messages: list[NewMessage] = Field(min_length=1, max_length=1000)
    history: bool = Field(
        default=False, description="They are the conversation so far: only those beyond the stored ones are new."
    )
    conversation: str | None = Field(default=None, max_length=200, description="Conversation that they belong to.")


class SearchRequest(requests.SearchForm):
    """A search."""

    archived: bool = Field(default=False, description=f"{_ARCHIVED} The search indexes all of them first.")


class ListRequest(requests.ListForm):
    """A page of the newest memories; in a query string `metadata` and `where` are JSON."""

    archived: bool = Field(default=False, description=_ARCHIVED)
    quarantined: bool | None = Field(
        default=None, description="Only memories in quarantine, or only others; by default both, marked."
    )

    def matching(self) -> Filter:
        """Return the filter of the list."""
        if self.quarantined is None:
            return super().matching()
        return super().matching() & (QUARANTINED if self.quarantined else Filter(min_trust=LEAST_TRUST))


class MemoryPage(BaseModel):
    """Memories, and the number of all within reach where they are a page."""

    memories: list[StoredMemory]
    total: int | None = None


class Ids(BaseModel):
    """Ids of the memories that were stored, in the order of their texts."""

    ids: list[str]


class ForgottenCount(BaseModel):
    """Number of memories that were forgotten."""

    forgotten: int


class Problem(BaseModel):
    """Reason why a request was not carried out."""

    status: int
    message: str


class ProblemDocument(BaseModel):
    """Answer to a request that was not carried out."""

    error: Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Generic[M]):
    """One method of one path."""

    name: str
    method: str
    path: str
    summary: str
    asked: type[M] | None
    """Model of the body, or with GET of the query."""
    answer: type[BaseModel]
    run: Callable[[TokenAccess, str, Any], BaseModel]
    """Carries it out; it gets the id in the path, empty where it has none, and the request."""
    writes: bool = False
    status: HTTPStatus = HTTPStatus.OK


def _add(access: TokenAccess, _id: str, asked: NewMemories) -> Ids:
    source = Provenance(kind=SourceKind.NODE, name=access.actor or _HTTP_CLIENT)
    outcomes = access.memory.add_outcomes([one.model_dump(exclude_none=True) for one in asked.memories], source=source)
    return _ids(outcomes)


def _add_messages(access: TokenAccess, _id: str, asked: NewMessages) -> Ids:
    messages = [one.model_dump(exclude_none=True) for one in asked.messages]
    return _ids(access.memory.add_outcomes(messages, history=asked.history, conversation=asked.conversation))


def _ids(outcomes: Sequence[WriteOutcome]) -> Ids:
    return Ids(ids=[outcome.item_id or "" for outcome in outcomes])


def _list(access: TokenAccess, _id: str, asked: ListRequest) -> MemoryPage:
    items, total = asked.items(access.memory)
    return MemoryPage(memories=[StoredMemory.of(item) for item in items], total=total)


def _search(access: TokenAccess, _id: str, asked: SearchRequest) -> MemoryPage:
    with access.memory.archived() if asked.archived else nullcontext(access.memory) as reader:
        return MemoryPage(memories=[StoredMemory.of(hit) for hit in asked.hits(reader)])


def _get(access: TokenAccess, item_id: str, _asked: None) -> StoredMemory:
    record = access.memory.get(item_id)
    if record is None:
        raise ItemNotFoundError(item_id)
    return StoredMemory.of(record)


def _change(access: TokenAccess, item_id: str, asked: MemoryChange) -> StoredMemory:
    return StoredMemory.of(asked.apply(access.memory, item_id))


def _forget(access: TokenAccess, item_id: str, _asked: None) -> ForgottenCount:
    if access.memory.get(item_id, archived=True) is None:
        raise ItemNotFoundError(item_id)
    return ForgottenCount(forgotten=access.memory.forget(item_id).items)


_ONE: Final = "/v1/memories/{id}"
ENDPOINTS: Final[Sequence[Endpoint[Any]]] = (
    Endpoint(
        name="addMemories", method="POST", path="/v1/memories", summary="Remember texts; they are durable when this "
        "answers.", asked=NewMemories, answer=Ids, run=_add, writes=True, status=HTTPStatus.CREATED,
    ),
    Endpoint(
        name="addMessages", method="POST", path="/v1/messages", summary="Remember messages, or what is new in a "
        "conversation; they are durable when this answers.", asked=NewMessages, answer=Ids, run=_add_messages,
        writes=True, status=HTTPStatus.CREATED,
    ),
    Endpoint(
        name="listMemories", method="GET", path="/v1/memories", summary="List the newest memories.", asked=ListRequest,
        answer=MemoryPage, run=_list,
    ),
    Endpoint(
        name="searchMemories", method="POST", path="/v1/search", summary="Search by meaning and words.",
        asked=SearchRequest, answer=MemoryPage, run=_search,
    ),
    Endpoint(
        name="getMemory", method="GET", path=_ONE, summary="Return a memory.", asked=None, answer=StoredMemory,
        run=_get,
    ),
    Endpoint(
        name="changeMemory", method="PATCH", path=_ONE, summary="Change a memory and keep its id.", asked=MemoryChange,
        answer=StoredMemory, run=_change, writes=True,
    ),
    Endpoint(
        name="forgetMemory", method="DELETE", path=_ONE, summary="Forget a memory permanently.", asked=None,
        answer=ForgottenCount, run=_forget, writes=True,
    ),
)  # fmt: skip
"""Every method of the interface."""

_STATUS: Final[Sequence[tuple[type[Exception], HTTPStatus]]] = (
    (ItemNotFoundError, HTTPStatus.NOT_FOUND),
    (VersionConflictError, HTTPStatus.CONFLICT),
    (ScopeError, HTTPStatus.FORBIDDEN),
    (NoVersionsError, HTTPStatus.BAD_REQUEST),
    (NotStoredError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (ValueError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (DevmemError, HTTPStatus.SERVICE_UNAVAILABLE),
)
"""Status of an error; the first class that it is of counts."""


def api_routes(door: Door) -> list[Route]:
    """Return the routes of the interface for an application behind a guard; `door` decides what requests reach."""
    document = openapi()

    def describe(_request: Request) -> Response:
        return JSONResponse(document)

    routes = [Route(OPENAPI_PATH, describe)]
    for path in dict.fromkeys(endpoint.path for endpoint in ENDPOINTS):
        here = {endpoint.method: endpoint for endpoint in ENDPOINTS if endpoint.path == path}
        starlette_path = path.replace("{id}", "{id:path}")
        routes.append(Route(starlette_path, _handler(door, here), methods=list(here)))
    return routes


def _handler(door: Door, endpoints: Mapping[str, Endpoint[Any]]) -> Callable[[Request], Any]:
    async def handle(request: Request) -> Response:
        # Starlette answers HEAD where GET is.
        endpoint = endpoints.get(request.method) or endpoints["GET"]
        try:
            access = door.access(request.scope)
        except PermissionError as error:
            return _problem(HTTPStatus.UNAUTHORIZED, str(error))
        if endpoint.writes and access.read_only:
            return _problem(HTTPStatus.FORBIDDEN, "this memory is served read-only")
        if endpoint.writes and request.headers.get("if-match", "*") != "*":
            # Carried out without it, the change would overwrite what the header was to protect.
            return _problem(HTTPStatus.BAD_REQUEST, "If-Match is not supported; send `if_version` in the body")
        try:
            asked = await _asked(request, endpoint)
            with acting_as(access.actor or _HTTP_CLIENT, by_default=access.actor is None):
                done = await asyncio.to_thread(endpoint.run, access, request.path_params.get("id", ""), asked)
            answer: Response = JSONResponse(done.model_dump(mode="json", exclude_none=True), endpoint.status)
        except ValidationError as error:
            answer = _problem(HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(problems_of(error)))
        except (DevmemError, ValueError) as error:
            status = next(status for kind, status in _STATUS if isinstance(error, kind))
            answer = _problem(status, str(error))
        return answer

    return handle


async def _asked(request: Request, endpoint: Endpoint[Any]) -> BaseModel | None:
    """Return the request; what the endpoint would not read, such as a condition on a deletion, is refused."""
    query, in_query, model = request.query_params, endpoint.method == "GET", endpoint.asked or requests.RequestModel
    if in_query and (request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers):
        # Refused unread, as the guard lets the body of such a request pass without a limit.
        raise ValueError("a GET request has no body; write its parameters in the query string")
    if repeated := sorted(key for key, times in Counter(key for key, _ in query.multi_items()).items() if times > 1):
        raise ValueError(f"{repeated[0]}: is in the query string more than once")
    asked = (model if in_query else requests.RequestModel).model_validate(dict(query))
    body = b"" if in_query else await request.body()
    if not in_query and (endpoint.asked is not None or body.strip()):
        asked = model.model_validate_json(body)
    return None if endpoint.asked is None else asked


def _problem(status: HTTPStatus, message: str) -> Response:
    document = ProblemDocument(error=Problem(status=int(status), message=message))
    return JSONResponse(document.model_dump(), status_code=int(status))


async def answer_unrouted(_request: Request, error: Exception) -> Response:
    """Answer a request that no route takes, in the form of every failure."""
    refusal = error if isinstance(error, HTTPException) else HTTPException(HTTPStatus.INTERNAL_SERVER_ERROR)
    answer = _problem(HTTPStatus(refusal.status_code), refusal.detail)
    answer.headers.update(refusal.headers or {})
    return answer


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of the interface."""
    models = {model for each in ENDPOINTS for model in (each.asked, each.answer) if model is not None} | {
        ProblemDocument
    }
    ordered = sorted(models, key=lambda model: model.__name__)
    _, schemas = models_json_schema(
        [(model, "validation") for model in ordered], ref_template="#/components/schemas/{model}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "devmem", "version": "1", "description": "A long-term memory."},
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(endpoint: Endpoint[Any]) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = []
    if "{id}" in endpoint.path:
        parameters.append({"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "responses": {
            str(int(endpoint.status)): {"description": "Done.", "content": _content(endpoint.answer)},
            "default": {"description": "Not carried out.", "content": _content(ProblemDocument)},
        },
    }
    if endpoint.asked is not None and endpoint.method == "GET":
        properties = endpoint.asked.model_json_schema()["properties"]
        parameters += [_query_parameter(name, schema) for name, schema in properties.items()]
    elif endpoint.asked is not None:
        operation["requestBody"] = {"required": True, "content": _content(endpoint.asked)}
    return {**operation, "parameters": parameters} if parameters else operation


def _query_parameter(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    parameter: dict[str, Any] = {"name": name, "in": "query"}
    if schema.get("type") == "object":
        # By `content` OpenAPI says that the value is one JSON text, and not a pair for each key.
        return {**parameter, "content": {"application/json": {"schema": schema}}}
    return {**parameter, "schema": schema}


def _content(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
