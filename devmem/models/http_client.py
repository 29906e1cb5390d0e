"""The HTTP policy of every client of ours: bounded in time and size, and never led to another host.

Services are asked through the `openai` package and mem0's client, which take a client of httpx (or of its successor,
whichever the package is built on); `guarded_client` makes one. A request ends in time, however slowly its answer drips
in. An answer is unpacked piece by piece and ends at the limit that the caller set, however small it was packed. A
redirect to another origin is not followed, since the texts of a memory would go there.
"""

from __future__ import annotations

import os
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from devmem.errors import AnswerRefusedError, DeadlineError, DevmemError, MissingExtraError
from devmem.redaction import usable_key, without_credentials
from devmem.text.retry import within

if TYPE_CHECKING:
    from openai import OpenAI
    from pydantic import SecretStr

DEFAULT_LIMIT: Final = 32_000_000
"""Bytes of an answer, unpacked, where nothing else is set."""
_PIECE: Final = 1 << 16
_MOST_REDIRECTS: Final = 5
_GZIP: Final = zlib.MAX_WBITS | 16
"""Window bits by which `zlib` reads gzip, a little at a time; no other packing is asked for."""
_limit: ContextVar[int] = ContextVar("devmem_answer_limit", default=DEFAULT_LIMIT)
_deadline: ContextVar[float] = ContextVar("devmem_answer_deadline", default=float("inf"))


_IN_PROCESS: Final = frozenset({"extractive", "minilm", "e5", "onnx", "local"})


def service_address(provider: str, base_url: str | None) -> str | None:
    """Return the address of the service that a provider of chat models or embeddings asks.

    None is a provider that works in this process, or a plugin's whose block has no `base_url`; see `is_in_process`.
    """
    if provider == "openai" and not base_url:
        return os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    return None if is_in_process(provider) else base_url


_KEY_VARIABLE: Final = "OPENAI_API_KEY"
_PLACEHOLDER: Final = re.compile(r"\$\{?\w*\}?")
_PROXY: Final = "ALL_PROXY, HTTPS_PROXY or HTTP_PROXY"


def is_in_process(provider: str) -> bool:
    """Whether a provider of ours sends nothing to any service."""
    return provider in _IN_PROCESS


@contextmanager
def answers_within(seconds: float, *, limit: int = DEFAULT_LIMIT) -> Iterator[None]:
    """Bound the requests made inside the block: their time together, retries included, and the bytes of each answer.

    What is still under way when the time is over ends with its next byte.
    """
    limit_before, deadline_before = _limit.set(limit), _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _limit.reset(limit_before)
        _deadline.reset(deadline_before)


def guarded_client(base: type[Any], timeout: float) -> Any:  # noqa: ANN401 - of httpx or of its successor
    """Return a client of a class of httpx that keeps the policy.

    Args:
        base: `httpx.Client` or a subclass.
        timeout: seconds for one request and its answer, or for the head of an answer that is streamed, where the
            request sets none.
    """
    library = _library_of(base)

    class GuardedClient(base):  # type: ignore[misc] # the class is an argument
        def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:  # noqa: ANN401 - httpx's own
            """Send a request, and follow redirects within its origin.

            Raises:
                httpx.ReadTimeout: it did not end in time.
                AnswerRefusedError: the answer is against the policy.
            """
            request.headers["accept-encoding"] = "gzip"
            options["follow_redirects"] = False
            set_there = request.extensions.get("timeout", {}).get("read")
            ends = min(time.monotonic() + (timeout if set_there is None else set_there), _deadline.get())

            def exchange() -> Any:  # noqa: ANN401
                response = _followed(partial(super(GuardedClient, self).send, stream=True, **options), request)
                response.stream = _guarded(response, library, _deadline.get() if stream else ends)
                if not stream:
                    response.read()
                return response

            try:
                return within(max(ends - time.monotonic(), 0.0), exchange)
            except DeadlineError:
                raise library.ReadTimeout("the answer did not end in time", request=request) from None

    try:
        return GuardedClient(timeout=timeout)
    except ImportError as error:
        raise MissingExtraError(feature=f"the SOCKS proxy in {_PROXY}", package="socksio", extra=None) from error
    except ValueError as error:
        raise DevmemError(f"the proxy in {_PROXY} cannot be used: {error}") from None


def openai_client(
    asker: str,
    error: type[DevmemError],
    *,
    api_key: SecretStr | None,
    base_url: str | None,
    timeout: float,
    max_retries: int,
) -> OpenAI:
    """Return a client of a service that speaks OpenAI's protocol; nothing is sent yet.

    Args:
        asker: names who asks, for errors.
        error: raised where there is no usable key or address.
        api_key: None takes the environment's OPENAI_API_KEY.
        base_url: None takes the environment's OPENAI_BASE_URL, then OpenAI's own address.
        timeout: seconds for one request.
        max_retries: maximum number of times that a request is repeated after 429, 5xx and time-outs.

    Raises:
        MissingExtraError: the `openai` package is not installed.
    """
    try:
        import openai
    except ImportError as missing:
        raise MissingExtraError(feature=asker, package="openai", extra="openai") from missing
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise error(f"{asker}: `base_url` begins with http:// or https://, unlike {base_url!r}")
    given, named = (
        (os.environ.get(_KEY_VARIABLE, ""), _KEY_VARIABLE)
        if api_key is None
        else (api_key.get_secret_value(), "`api_key`")
    )
    try:
        key = usable_key(given, named)
    except ValueError as unusable:
        raise error(f"{asker} cannot be asked: {unusable}") from None
    if not key or _PLACEHOLDER.fullmatch(key):
        found = f"{key!r} was not replaced" if key else "none is given"
        raise error(
            f"{asker} has no key: {found}. Set `api_key`, or {_KEY_VARIABLE} in the environment; a service without "
            "keys takes any word. Agents and `llm:` blocks need neither with `provider: extractive`, nor do "
            "`embedding:` blocks with `provider: minilm`."
        )
    client = guarded_client(openai.DefaultHttpxClient, timeout)
    return openai.OpenAI(api_key=key, base_url=base_url, timeout=timeout, max_retries=max_retries, http_client=client)


def _followed(send: Callable[[Any], Any], request: Any) -> Any:  # noqa: ANN401 - httpx's
    """Return the answer to a request, or that at the place of the same origin where it redirects to."""
    response = send(request)
    for _ in range(_MOST_REDIRECTS):
        if response.next_request is None:
            return response
        response.close()
        if _origin(response.next_request) != _origin(request):
            there = without_credentials("{}://{}:{}".format(*_origin(response.next_request)))
            raise AnswerRefusedError(f"the service redirects to {there}, where nothing is sent; is the address right?")
        response = send(response.next_request)
    return response


def _origin(request: Any) -> tuple[str, str, int]:  # noqa: ANN401 - httpx's
    url = request.url
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme, 0)


def _guarded(response: Any, library: Any, ends: float) -> Any:  # noqa: ANN401 - httpx's
    """Return the body of an answer, unpacked and within its limits."""
    packing = response.headers.pop("content-encoding", "identity").strip().lower()
    if packing not in ("identity", "gzip"):
        response.close()
        raise AnswerRefusedError(f"the answer is packed by {packing!r}, which was not asked for")
    request, stream = response.request, response.stream

    class Guarded(library.SyncByteStream):  # type: ignore[misc] # of the library that the client is of
        def __iter__(self) -> Iterator[bytes]:
            total, limit = 0, _limit.get()
            for piece in self._timed() if packing == "identity" else _unpacked(self._timed()):
                total += len(piece)
                if total > limit:
                    raise AnswerRefusedError(f"the answer has more than {limit:,} bytes")
                yield piece

        def _timed(self) -> Iterator[bytes]:
            for raw in stream:
                if time.monotonic() > ends:
                    raise library.ReadTimeout("the answer did not end in time", request=request)
                yield raw

        def close(self) -> None:
            stream.close()

    return Guarded()


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Unpack gzip in pieces of bounded size; what follows its end is not read."""
    unpack = zlib.decompressobj(_GZIP)
    try:
        for raw in pieces:
            rest = raw
            while rest and not unpack.eof:
                yield unpack.decompress(rest, _PIECE)
                rest = unpack.unconsumed_tail
            if unpack.eof:
                return
        yield unpack.flush()
    except zlib.error as error:
        raise AnswerRefusedError(f"the answer is not gzip, as it says it is: {error}") from error


def library_errors(client: type[Any]) -> type[Exception]:
    """Return the base of the errors that the library of a client's class raises while an answer is read."""
    return cast("type[Exception]", _library_of(client).HTTPError)


def _library_of(client: type[Any]) -> Any:  # noqa: ANN401 - httpx or its successor
    base = next(one for one in client.__mro__ if one.__name__ == "Client")
    return sys.modules[base.__module__.partition(".")[0]]
