"""Translation of the errors of mem0, its client and the libraries behind them into `Mem0Error`s without keys."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from devmem.errors import DevmemError, Mem0Error, Mem0RejectedError, MissingExtraError
from devmem.redaction import without_credentials, without_repeated

if TYPE_CHECKING:
    import httpx

_LONGEST: Final = 300


def masked(text: str) -> str:
    """Return a text without keys, cut short."""
    text = without_credentials(text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


class _Masking(logging.Filter):
    """Masks keys in log records: mem0 logs the answers of services, which may repeat one."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through, masked."""
        record.msg, record.args = without_credentials(record.getMessage()), ()
        return True


_MASKING: Final = _Masking()


def hide_in_logs() -> None:
    """Keep keys out of what mem0 logs from now on. A logger's filter does not reach its children: all get it."""
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("mem0."):
            logging.getLogger(name).addFilter(_MASKING)


@contextmanager
def translated_errors(operation: str) -> Iterator[None]:
    """Raise a `Mem0Error` for whatever mem0 raises.

    The original is not chained: the server's answer, which may repeat the key, is part of its text.
    """
    # What the caller is dealing with while it calls is the context of our exceptions, but not their cause.
    outside = sys.exception()
    try:
        yield
    except (Mem0Error, MissingExtraError):
        raise
    except DevmemError as error:
        raise Mem0Error("model", operation, masked(str(error))) from error
    except Exception as error:  # noqa: BLE001 - a stranger's code, with libraries of its own behind it
        raise _translated(error, outside, operation) from None


def _translated(error: Exception, outside: BaseException | None, operation: str) -> Mem0Error:
    # Here it is loaded already, as mem0's clients are built on it.
    import httpx

    # With these, the request never reached the server.
    not_sent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause is not outside and cause not in seen:
        if isinstance(cause, httpx.HTTPStatusError):
            answer = cause.response
            return _by_status(answer.status_code, answer.headers, _said(answer), operation)
        if isinstance(status := getattr(cause, "status_code", None), int):
            # Of the client of a language model, as openai's, in `mode: oss`.
            headers = getattr(getattr(cause, "response", None), "headers", None) or {}
            found = _by_status(status, headers, f"the language model's service: {cause}", operation)
            # Not mem0 refused the text, but a service that may be set up wrongly: the write is worth keeping.
            return Mem0Error("model", operation, found.detail) if isinstance(found, Mem0RejectedError) else found
        maybe_done = not isinstance(cause, not_sent)
        if isinstance(cause, httpx.TimeoutException):
            return Mem0Error("timeout", operation, "no answer in time", maybe_done=maybe_done)
        if isinstance(cause, httpx.RequestError):
            return Mem0Error("connection", operation, masked(f"the connection failed ({cause})"), maybe_done=maybe_done)
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    text = masked(f"{type(error).__name__}: {error}")
    if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError, RecursionError)):
        return Mem0Error("answer", operation, f"the answer is malformed: {text}", maybe_done=True)
    # What mem0 refuses to send, it will refuse the next time too; anything else may pass.
    return (
        Mem0RejectedError(operation, text) if isinstance(error, ValueError) else Mem0Error("unknown", operation, text)
    )


def _by_status(status: int, headers: Mapping[str, str], said: str, operation: str) -> Mem0Error:
    detail = masked(f"HTTP {status}: {said}")
    if status in (401, 403):
        return Mem0Error("auth", operation, detail)
    if status == 429:
        return Mem0Error("rate limit", operation, detail, retry_after=_retry_after(headers))
    if status in (408, 425) or status >= 500:
        return Mem0Error("server", operation, detail, maybe_done=True, status=status)
    return Mem0RejectedError(operation, detail, status=status)


_TEXTS: Final = frozenset({"query", "content", "metadata"})
"""Keys of a request whose values are texts of a memory."""


def _said(response: httpx.Response) -> str:
    """Return what the server says of the error: `detail`, or whatever it answered, unless it repeats its request."""
    try:
        raw = response.json()
    except (ValueError, RecursionError):
        raw = response.text
    said = raw.get("detail", raw) if isinstance(raw, dict) else raw
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    sent = _sent_texts(response.request.content)
    return without_repeated(" ".join(text.split()), sent) or response.reason_phrase


def _sent_texts(body: bytes) -> Iterator[str]:
    """Yield the texts of a memory that a request has in its body."""
    left: list[tuple[bool, object]] = [(False, json.loads(body))] if body else []
    while left:
        is_text, part = left.pop()
        if isinstance(part, dict):
            left += [(is_text or key in _TEXTS, value) for key, value in part.items()]
        elif isinstance(part, list):
            left += [(is_text, value) for value in part]
        elif is_text and isinstance(part, str):
            yield part


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Read `Retry-After`, seconds or a date, as seconds from now; None when it says nothing usable."""
    raw = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", raw):
        return float(raw)
    try:
        return max(parsedate_to_datetime(raw).timestamp() - time.time(), 0.0)
    except ValueError:
        return None
