"""Reports of a server to its clients: progress and log messages of a call, and changes that they subscribed to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, TypeVar, get_args
from urllib.parse import quote, unquote

from mcp import MCPError, types
from mcp.server import ServerRequestContext
from mcp.server.connection import Connection, allowed_log_levels
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
)
from mcp.shared.message import SessionMessage
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from devmem.errors import DevmemError
from devmem.memory import Memory
from devmem.text import well_formed, well_formed_json

_LOG: Final = logging.getLogger(__name__)
_Context: TypeAlias = ServerRequestContext[Any]
T = TypeVar("T")
R = TypeVar("R", bound=BaseModel)

_PROGRESS_EVERY: Final = 1.0
"""Seconds between two reports of the progress of a call."""
_LOOK_EVERY: Final = 1.0
"""Seconds between two looks at what clients subscribed to."""
_WATCHED: Final = 100
"""Maximum number of memories that one client watches."""
_LISTED: Final = 50
"""Number of the newest memories whose change is a change of the list."""
_LIST: Final = ""
"""Stands for the list of memories where the others are URIs."""
_LEVEL: Final = "devmem/level"
_SEEN: Final = "devmem/seen"
_WATCHING: Final = "devmem/watching"
"""Names of what is kept of a connection."""
_LEVELS: Final[Mapping[int, types.LoggingLevel]] = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warning",
    logging.ERROR: "error",
    logging.CRITICAL: "critical",
}
_ORDER: Final[tuple[types.LoggingLevel, ...]] = get_args(types.LoggingLevel)

URI_PREFIX: Final = "memory://items/"
"""Beginning of the URI of every memory."""


def uri_of(item_id: str) -> str:
    """Return the URI of a memory."""
    return URI_PREFIX + quote(item_id, safe="")


def item_id_of(uri: str) -> str | None:
    """Return the id that a URI names; None if it is none of a memory."""
    return unquote(uri.removeprefix(URI_PREFIX)) if uri.startswith(URI_PREFIX) else None


_deliver: ContextVar[Callable[[logging.LogRecord], None] | None] = ContextVar("_deliver", default=None)


class _Relay(logging.Handler):
    """Hands records to the call in whose context they were logged."""

    def emit(self, record: logging.LogRecord) -> None:
        if (deliver := _deliver.get()) is not None:
            deliver(record)
        # A logger without handlers writes warnings to standard error; this handler shall not end that.
        package = logging.getLogger(record.name.partition(".")[0])
        is_silent = package.handlers == [self] and not logging.root.handlers
        if is_silent and (last := logging.lastResort) is not None and record.levelno >= last.level:
            last.handle(record)


_RELAY: Final = _Relay()


def relay_log_messages() -> None:
    """Have the log messages of devmem reach `run_reported`; calling it again changes nothing."""
    for package in ("devmem", "devmem_stores"):
        logging.getLogger(package).addHandler(_RELAY)


async def set_level(ctx: _Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """Carry out `logging/setLevel` of revisions before 2026: the least severe level that a connection is sent."""
    _connection(ctx).state[_LEVEL] = params.level
    return types.EmptyResult()


def levels_of(ctx: _Context) -> frozenset[types.LoggingLevel]:
    """Return the levels of log messages that a request's client takes.

    A revision from 2026 on asks with each request (`_meta`); before, `logging/setLevel` asked for a connection, and a
    client that did not is sent warnings.
    """
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return allowed_log_levels(ctx.protocol_version, ctx.meta)
    least: types.LoggingLevel = _connection(ctx).state.get(_LEVEL, "warning")
    return frozenset(_ORDER[_ORDER.index(least) :])


def readable(received: SessionMessage | Exception) -> SessionMessage | Exception:
    """Return a message that the library could not read for half a surrogate pair, with a replacement character.

    Otherwise the request would never be answered.
    """
    if not isinstance(received, ValidationError):
        return received
    line = received.errors()[0]["input"]
    if not isinstance(line, str) or (replaced := well_formed_json(line.encode())) == line.encode():
        return received
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(replaced, by_name=False))
    except ValidationError as error:
        return error


async def run_reported(
    ctx: _Context, levels: frozenset[types.LoggingLevel], title: str, work: Callable[..., T], *arguments: object
) -> T:
    """Do the work of a call in a thread; report its seconds to a client that asked for progress, and its log messages.

    Args:
        ctx: the call.
        levels: of the messages that are sent.
        title: of the tool, for people who wait.
        work: done with the arguments.
        arguments: of the work.
    """
    loop = asyncio.get_running_loop()
    logged: list[logging.LogRecord] = []
    token = _deliver.set(lambda record: logged.append(record) if _LEVELS.get(record.levelno) in levels else None)
    try:
        working = asyncio.create_task(asyncio.to_thread(work, *arguments))
    finally:
        _deliver.reset(token)
    began = loop.time()
    while True:
        done, _ = await asyncio.wait({working}, timeout=_PROGRESS_EVERY)
        while logged:
            record = logged.pop(0)
            said = types.LoggingMessageNotificationParams(
                level=_LEVELS[record.levelno], logger=record.name, data=well_formed(record.getMessage())
            )
            # Any id sends it with the answer of the request; the library does not pass it on.
            sent = types.LoggingMessageNotification(params=said)
            await ctx.session.send_notification(sent, related_request_id="")
        if done:
            return working.result()
        await ctx.session.report_progress(round(loop.time() - began, 3), message=f"{title}: still at work")


class ChangeWatch:
    """Looks again and again at what a client may reach, whoever changes it: this server, another process, a person."""

    def __init__(self, memory: Memory, is_valid: Callable[[], bool]) -> None:
        """Watch what a handle reaches for as long as the client's token is accepted."""
        self._memory, self._is_valid = memory, is_valid

    async def listen(
        self, ctx: _Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one `subscriptions/listen` stream until the client closes it or its token is no longer accepted.

        Raises:
            MCPError: it names too many memories.
        """
        asked = params.notifications
        honored = types.SubscriptionFilter(
            resources_list_changed=asked.resources_list_changed, resource_subscriptions=asked.resource_subscriptions
        )
        uris = [*(asked.resource_subscriptions or ()), *([_LIST] if asked.resources_list_changed else ())]
        seen = await self.states(uris)
        bus = InMemorySubscriptionBus()
        handler = ListenHandler(bus)
        watching = asyncio.create_task(self.publish_changes(seen, bus.publish))
        watching.add_done_callback(lambda _: handler.close())
        try:
            return await handler(ctx, params.model_copy(update={"notifications": honored}))
        finally:
            watching.cancel()

    async def states(self, uris: Iterable[str]) -> dict[str, object]:
        """Return a state for each URI that differs after a change; that of the list has the URI `_LIST`.

        Raises:
            MCPError: there are too many.
        """
        watched = list(dict.fromkeys(uris))
        if len(watched) > _WATCHED:
            raise MCPError(types.INVALID_PARAMS, f"{len(watched)} are too many to watch; {_WATCHED} may be")
        return await asyncio.to_thread(lambda: {uri: self._state(uri) for uri in watched})

    async def publish_changes(self, seen: dict[str, object], publish: Callable[[ServerEvent], Awaitable[None]]) -> None:
        """Publish each change from the states that were seen on, until the token is no longer accepted.

        `seen` may get further URIs meanwhile and lose some.
        """
        failing = False
        while self._is_valid():
            await asyncio.sleep(_LOOK_EVERY)
            try:
                now = await self.states(seen)
            except DevmemError as error:
                if not failing:
                    _LOG.warning("changes that clients subscribed to cannot be seen for now: %s", error)
                failing = True
                continue
            failing = False
            changed = [uri for uri, state in now.items() if uri in seen and seen[uri] != state]
            seen.update((uri, now[uri]) for uri in changed)
            for uri in changed:
                await publish(ResourcesListChanged() if uri == _LIST else ResourceUpdated(uri))

    def _state(self, uri: str) -> object:
        if uri == _LIST:
            return (self._memory.count(), [record.id for record in self._memory.list(_LISTED)])
        item_id = item_id_of(uri)
        record = self._memory.get(item_id) if item_id else None
        return record and record.version


async def subscribe(ctx: _Context, params: types.SubscribeRequestParams, watch: ChangeWatch) -> types.EmptyResult:
    """Carry out `resources/subscribe` of revisions before 2026: send each change until the client ends or unsubscribes.

    Raises:
        MCPError: it is one too many.
    """
    connection, session, uri = _connection(ctx), ctx.session, str(params.uri)
    seen: dict[str, object] = connection.state.setdefault(_SEEN, {})
    known = await watch.states([*seen, uri])
    seen.setdefault(uri, known[uri])

    async def publish(event: ServerEvent) -> None:
        if isinstance(event, ResourceUpdated):
            await session.send_resource_updated(event.uri)

    if _WATCHING not in connection.state:
        watching = asyncio.create_task(watch.publish_changes(seen, publish))
        connection.state[_WATCHING] = watching
        connection.exit_stack.callback(watching.cancel)
    return types.EmptyResult()


async def unsubscribe(ctx: _Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    """Carry out `resources/unsubscribe`."""
    _connection(ctx).state.get(_SEEN, {}).pop(str(params.uri), None)
    return types.EmptyResult()


def _connection(ctx: _Context) -> Connection:
    """Return the connection of a request: the library names no public way from a handler to its state and its end."""
    return ctx.session._connection  # noqa: SLF001
