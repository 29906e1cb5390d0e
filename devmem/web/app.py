"""The application: routes, static files, and serving them at an address of this machine."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from devmem.errors import DevmemError
from devmem.server.connections import http_config
from devmem.web.desk import Desk
from devmem.web.guard import PageGuard
from devmem.web.pages import Pages

_STATIC: Final = Path(__file__).parent / "static"
_SMALLEST: Final = 500
"""Bytes from which an answer is compressed."""


def make_app(desk: Desk, *, host: str, port: int) -> PageGuard:
    """Return the application behind its guard, whose `link_token` opens it once."""

    def guard() -> PageGuard:
        return guarded

    pages = Pages(desk, guard)

    async def failed(request: Request, error: Exception) -> Response:
        return pages.failed(request, error)

    app = Starlette(routes=routes(pages), exception_handlers={DevmemError: failed})
    guarded = PageGuard(GZipMiddleware(app, minimum_size=_SMALLEST), host=host, port=port)
    return guarded


def routes(pages: Pages) -> list[BaseRoute]:
    """Return the addresses of the page."""
    return [
        Route("/", pages.search),
        Route("/item/{store}/{item}", pages.item),
        Route("/item/{store}/{item}/text", pages.text),
        Route("/item/{store}/{item}/edit", pages.form(pages.edit), methods=["POST"]),
        Route("/item/{store}/{item}/mark", pages.form(pages.mark), methods=["POST"]),
        Route("/item/{store}/{item}/forget", pages.form(pages.forget), methods=["POST"]),
        Route("/shown", pages.shown),
        Route("/step/{number:int}", pages.step),
        Route("/who", pages.who),
        Route("/talk", pages.talk),
        Route("/health", pages.health),
        Route("/runs/end", pages.form(pages.end_run), methods=["POST"]),
        Route("/transfer", pages.transfer),
        Route("/transfer/check", pages.form(pages.check_import), methods=["POST"]),
        Route("/transfer/import", pages.form(pages.fill), methods=["POST"]),
        Route("/transfer/export", pages.form(pages.export), methods=["POST"]),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]


class Server(uvicorn.Server):
    """A server of the application at a bound socket, `run(sockets=[...])`, which calls `ready` when it answers."""

    def __init__(self, app: PageGuard, ready: Callable[[], None]) -> None:
        """Take the application and what is called."""
        super().__init__(http_config(app, access_log=False, server_header=False))
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        if self.started:
            self._ready()
