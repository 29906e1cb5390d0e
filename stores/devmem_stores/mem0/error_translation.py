"""From what mem0 and its HTTP client raise to our errors.

The client (mem0ai 2.2.1) wraps `httpx` errors in `mem0/client/utils.py:api_error_handler`, keeping the original as
their context; its constructor raises a bare `ValueError` for an HTTP status (`mem0/client/main.py:_validate_api_key`),
and an answer that is no JSON raises `ValueError` everywhere. So what counts is the first `httpx` error in the chain.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Final

import httpx

from devmem import DevmemError, MissingExtraError
from devmem_stores.mem0.errors import (
    Mem0AnswerError,
    Mem0AuthError,
    Mem0ConnectionError,
    Mem0Error,
    Mem0ModelError,
    Mem0RateLimitError,
    Mem0RejectedError,
    Mem0ServerError,
    Mem0TimeoutError,
)
from devmem_stores.mem0.masking import masked

_SECONDS: Final = re.compile(r"\d+(\.\d+)?")
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""With these, the request never reached the server."""


@contextmanager
def translated_errors(operation: str, *secrets: str) -> Iterator[None]:
    """Raise our error for whatever mem0 raises; secrets are blotted out of its text.

    The original is not chained: the server's answer, which may repeat the key, is part of its text.
    """
    # What the caller is dealing with while it calls is the context of our exceptions, but not their cause.
    outside = sys.exception()
    try:
        yield
    except (Mem0Error, MissingExtraError):
        raise
    except DevmemError as error:
        raise Mem0ModelError(operation, masked(str(error), secrets)) from error
    except Exception as error:  # noqa: BLE001 - a stranger's code, with libraries of its own behind it
        raise _translated(error, outside, operation, secrets) from None


def _translated(error: Exception, outside: BaseException | None, operation: str, secrets: tuple[str, ...]) -> Mem0Error:
    for cause in _chain(error, outside):
        if isinstance(cause, httpx.HTTPStatusError):
            response = cause.response
            return _by_status(response.status_code, response.headers, _detail(response), operation, secrets)
        if isinstance(status := getattr(cause, "status_code", None), int):
            return _by_model(status, cause, operation, secrets)
        if isinstance(cause, httpx.TimeoutException):
            return Mem0TimeoutError(operation, "no answer in time", maybe_done=not isinstance(cause, _NOT_SENT))
        if isinstance(cause, httpx.RequestError):
            detail = masked(f"the connection failed ({cause})", secrets)
            return Mem0ConnectionError(operation, detail, maybe_done=not isinstance(cause, _NOT_SENT))
    text = masked(f"{type(error).__name__}: {error}", secrets)
    if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError, RecursionError)):
        return Mem0AnswerError(operation, f"the answer is malformed: {text}", maybe_done=True)
    # What mem0 refuses to send, it will refuse the next time too; anything else may pass.
    return Mem0RejectedError(operation, text) if isinstance(error, ValueError) else Mem0Error(operation, text)


def _chain(error: BaseException, outside: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    step: BaseException | None = error
    while step is not None and step is not outside and id(step) not in seen:
        yield step
        seen.add(id(step))
        step = step.__cause__ or step.__context__


def _by_status(
    status: int, headers: Mapping[str, str], said: str, operation: str, secrets: tuple[str, ...]
) -> Mem0Error:
    detail = masked(f"HTTP {status}: {said}", secrets)
    if status in (401, 403):
        return Mem0AuthError(operation, detail)
    if status == 429:
        return Mem0RateLimitError(operation, detail, retry_after=_retry_after(headers))
    if status in (408, 425) or status >= 500:
        return Mem0ServerError(operation, detail, status=status)
    return Mem0RejectedError(operation, detail, status=status)


def _by_model(status: int, cause: BaseException, operation: str, secrets: tuple[str, ...]) -> Mem0Error:
    """Read the failure of a language model's client, as openai's, in `mode: oss`."""
    headers = getattr(getattr(cause, "response", None), "headers", None) or {}
    found = _by_status(status, headers, f"the language model's service: {cause}", operation, secrets)
    # Not mem0 refused the text, but a service that may be set up wrongly: the write is worth keeping in its place.
    return Mem0ModelError(operation, found.detail) if isinstance(found, Mem0RejectedError) else found


def _detail(response: httpx.Response) -> str:
    """Return what the server says of the error: `detail`, or whatever it answered."""
    try:
        raw = response.json()
    except (ValueError, RecursionError):
        raw = response.text
    said = raw.get("detail", raw) if isinstance(raw, dict) else raw
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return " ".join(text.split()) or response.reason_phrase


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Read `Retry-After`, seconds or a date, as seconds from now; None when it says nothing usable."""
    raw = headers.get("Retry-After", "").strip()
    if _SECONDS.fullmatch(raw):
        return float(raw)
    try:
        return max(parsedate_to_datetime(raw).timestamp() - time.time(), 0.0)
    except ValueError:
        return None
