"""Who may open the page: the holder of a one-time link, from a browser on this machine, and no other site through it.

A page of another site can make a browser send requests here, or have a name of its own resolve to this machine (DNS
rebinding). Hence every request needs the host's name that was served, and a cookie that only the one-time link gives;
every change comes from this page by the browser's own word (`Origin`, `Sec-Fetch-Site`), and with a token of it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE: Final = "devmem"
CSRF_FIELD: Final = "csrf"
MAX_BODY: Final = 32 << 20
"""Bytes of a request's body: an import."""
_MOST_GUESSES: Final = 5
"""Wrong tokens after which the link is worth nothing."""
_SAFE: Final = ("GET", "HEAD")
_HEADERS: Final[Mapping[str, str]] = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_ENTERED: Final = '<!doctype html><title>devmem</title><meta http-equiv="refresh" content="0;url=/"><a href="/">on</a>'
_REFUSED: Final = "Open the link that `devmem web` printed; it works once. Start the command again for another one.\n"


class PageGuard:
    """Middleware that lets through what may pass, and adds the headers that keep a page to itself."""

    def __init__(self, app: ASGIApp, *, host: str, port: int) -> None:
        """Protect an application that is served at an address of this machine."""
        self._app = app
        names = {host, "localhost", "127.0.0.1", "[::1]"}
        self._hosts = {f"{name}:{port}" for name in names} | (names if port == 80 else set())
        self.link_token = secrets.token_urlsafe(32)
        """Token of the one-time link `/enter?token=...`."""
        self._cookie = secrets.token_urlsafe(32)
        self.csrf = secrets.token_urlsafe(32)
        """Token that a form of the page sends along."""
        self._guesses = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(16)
        scope.setdefault("state", {}).update(nonce=nonce, csrf=self.csrf)
        request = Request(scope, receive)
        refusal = self._refusal(request)
        answer = self._app if refusal is None else refusal
        await answer(scope, self._limited(receive), self._with_headers(send, scope["path"], nonce))

    def new_cookie(self) -> str:
        """Return the value of the cookie, for a browser that was let in otherwise."""
        return self._cookie

    def _refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that does not pass."""
        headers = request.headers
        if headers.get("host", "").casefold() not in self._hosts:
            return PlainTextResponse("This page is served under another name.\n", 421)
        if request.url.path == "/enter" and request.method == "GET":
            return self._entered(request.query_params.get("token", ""))
        if not self._has_cookie(headers):
            return PlainTextResponse(_REFUSED, 401)
        if not self._is_own(request):
            return PlainTextResponse("Another site asked for this.\n", 403)
        size = headers.get("content-length", "0")
        if not size.isdecimal() or int(size) > MAX_BODY:
            return PlainTextResponse(f"More than {MAX_BODY >> 20} MiB.\n", 413)
        return None

    def _entered(self, token: str) -> Response:
        """Return the answer to the one-time link: the cookie, and a page that leads on.

        Not a redirection: a browser that came from another site's page would not send the cookie after one.
        """
        if not self.link_token or not hmac.compare_digest(token.encode(), self.link_token.encode()):
            self._guesses += 1
            if self._guesses >= _MOST_GUESSES:
                self.link_token = ""
            return PlainTextResponse(_REFUSED, 401)
        self.link_token = ""
        response = HTMLResponse(_ENTERED)
        response.set_cookie(COOKIE, self._cookie, httponly=True, samesite="strict", path="/")
        return response

    def _has_cookie(self, headers: Headers) -> bool:
        # Several headers of cookies are one list, of which another program on this machine may have set some.
        for header in headers.getlist("cookie"):
            try:
                cookies = SimpleCookie(header)
            except CookieError:
                continue
            if COOKIE in cookies and hmac.compare_digest(cookies[COOKIE].value.encode(), self._cookie.encode()):
                return True
        return False

    def _is_own(self, request: Request) -> bool:
        """Whether a request comes from this page, or was typed into the browser."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if origin is not None and origin.casefold() not in {f"http://{host}" for host in self._hosts}:
            return False
        if site not in (None, "same-origin", "none"):
            return False
        # A form of another site has one of the two in every browser since 2023; a change without any is refused.
        return request.method in _SAFE or origin is not None or site == "same-origin"

    def _limited(self, receive: Receive) -> Receive:
        """Return the body of a request up to its limit, which one in pieces announces nowhere."""
        seen = 0

        async def limited() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            return {"type": "http.disconnect"} if seen > MAX_BODY else message

        return limited

    def _with_headers(self, send: Send, path: str, nonce: str) -> Callable[[Message], Awaitable[None]]:
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self'; connect-src 'self'; "
            "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update({**_HEADERS, "content-security-policy": policy})
                headers["cache-control"] = "max-age=3600" if path.startswith("/static/") else "no-store"
            await send(message)

        return sending

    def is_csrf(self, token: object) -> bool:
        """Whether a form has the page's token."""
        return isinstance(token, str) and hmac.compare_digest(token.encode(), self.csrf.encode())
