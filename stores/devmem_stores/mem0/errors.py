"""Errors of mem0.

Mem0Error
├── Mem0SetupError         the package, the configuration or the project does not fit
├── Mem0ScopeError         nobody's memories were asked for
├── Mem0AuthError          the key is wrong, revoked or may not do this
├── Mem0RateLimitError     too many requests; knows how long to wait
├── Mem0TimeoutError       no answer in time
├── Mem0ConnectionError    not reachable, or the connection broke
├── Mem0ServerError        5xx
├── Mem0ModelError         a model behind `mode: oss` failed
├── Mem0AnswerError        an answer that is not what mem0's API promises
├── Mem0RejectedError      mem0 will never take this request
└── Mem0UnavailableError   it failed repeatedly, and requests back off

The file that keeps unsent writes raises `devmem.errors.OutboxError`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, ClassVar, Final

from devmem import DevmemError
from devmem.errors import MissingExtraError
from devmem.redaction import without_credentials, without_repeated

if TYPE_CHECKING:
    import httpx


class Mem0Error(DevmemError):
    """mem0 could not do what it was asked; the text never holds the key."""

    advice: ClassVar[str] = ""
    retryable: ClassVar[bool] = False
    """The same request may work in a moment."""
    ill: ClassVar[bool] = True
    """It speaks against the service, not against one request."""

    def __init__(self, operation: str, detail: str, *, maybe_done: bool = False, status: int | None = None) -> None:
        """Take what was tried, why it failed, whether it may have been done all the same, and the HTTP status."""
        self.operation, self.detail, self.maybe_done, self.status = operation, detail, maybe_done, status
        advice = f" {self.advice}" if self.advice else ""
        super().__init__(f"mem0 could not {operation}: {detail.rstrip('.')}.{advice}")


class Mem0SetupError(Mem0Error):
    """The package, the configuration or the project does not fit."""

    ill = False


class Mem0ScopeError(Mem0Error):
    """Nobody's memories were asked for."""

    advice = "Set `user_id`, `agent_id` or `run_id` in the store's `config`, or give the node a `role`."
    ill = False


class Mem0AuthError(Mem0Error):
    """The key is wrong, revoked, or may not do this."""

    advice = "Check the store's `api_key`; unsent writes are kept and go out with the new one."


class Mem0RateLimitError(Mem0Error):
    """Too many requests."""

    retryable = True

    def __init__(self, operation: str, detail: str, *, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        wait = "" if retry_after is None else f"; it wants to be asked again in {retry_after:g} s"
        super().__init__(operation, f"{detail.rstrip('.')}{wait}")


class Mem0TimeoutError(Mem0Error):
    """No answer in time; another attempt would hold its caller for as long again."""

    advice = "`timeout` sets how long a request may take."


class Mem0ConnectionError(Mem0Error):
    """The host cannot be reached, or the connection broke."""

    retryable = True


class Mem0ServerError(Mem0Error):
    """The server failed (5xx)."""

    retryable = True


class Mem0ModelError(Mem0Error):
    """A model behind `mode: oss` failed."""

    retryable = True


class Mem0AnswerError(Mem0Error):
    """The answer is not what mem0's API promises."""

    retryable = True
    advice = "Does `host` lead to a server that speaks the mem0 platform's API?"


class Mem0RejectedError(Mem0Error):
    """mem0 will never take this request."""

    ill = False


class Mem0UnavailableError(Mem0Error):
    """mem0 failed repeatedly, and requests back off."""

    def __init__(self, operation: str, *, wait: float, cause: Mem0Error | None) -> None:
        """Take the seconds until the next request is sent, and the last failure."""
        self.wait, self.cause = wait, cause
        last = f" The last failure: {cause.detail}" if cause else ""
        super().__init__(operation, f"it failed repeatedly; the next request is sent in {wait:.0f} s.{last}")


_LONGEST: Final = 300
_OF_MEM0: Final = "mem0."


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
        if name.startswith(_OF_MEM0):
            logging.getLogger(name).addFilter(_MASKING)


_TEXTS: Final = frozenset({"query", "content", "metadata"})
"""Keys of a request whose values are texts of a memory."""
_SECONDS: Final = re.compile(r"\d+(\.\d+)?")


@contextmanager
def translated_errors(operation: str) -> Iterator[None]:
    """Raise our error for whatever mem0 raises.

    The original is not chained: the server's answer, which may repeat the key, is part of its text.
    """
    # What the caller is dealing with while it calls is the context of our exceptions, but not their cause.
    outside = sys.exception()
    try:
        yield
    except (Mem0Error, MissingExtraError):
        raise
    except DevmemError as error:
        raise Mem0ModelError(operation, masked(str(error))) from error
    except Exception as error:  # noqa: BLE001 - a stranger's code, with libraries of its own behind it
        raise _translated(error, outside, operation) from None


def _translated(error: Exception, outside: BaseException | None, operation: str) -> Mem0Error:
    # Here it is loaded already, as mem0's clients are built on it.
    import httpx

    # With these, the request never reached the server.
    not_sent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
    for cause in _chain(error, outside):
        if isinstance(cause, httpx.HTTPStatusError):
            response = cause.response
            return _by_status(response.status_code, response.headers, _detail(response), operation)
        if isinstance(status := getattr(cause, "status_code", None), int):
            return _by_model(status, cause, operation)
        if isinstance(cause, httpx.TimeoutException):
            return Mem0TimeoutError(operation, "no answer in time", maybe_done=not isinstance(cause, not_sent))
        if isinstance(cause, httpx.RequestError):
            detail = masked(f"the connection failed ({cause})")
            return Mem0ConnectionError(operation, detail, maybe_done=not isinstance(cause, not_sent))
    text = masked(f"{type(error).__name__}: {error}")
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


def _by_status(status: int, headers: Mapping[str, str], said: str, operation: str) -> Mem0Error:
    detail = masked(f"HTTP {status}: {said}")
    if status in (401, 403):
        return Mem0AuthError(operation, detail)
    if status == 429:
        return Mem0RateLimitError(operation, detail, retry_after=_retry_after(headers))
    if status in (408, 425) or status >= 500:
        return Mem0ServerError(operation, detail, maybe_done=True, status=status)
    return Mem0RejectedError(operation, detail, status=status)


def _by_model(status: int, cause: BaseException, operation: str) -> Mem0Error:
    """Read the failure of a language model's client, as openai's, in `mode: oss`."""
    headers = getattr(getattr(cause, "response", None), "headers", None) or {}
    found = _by_status(status, headers, f"the language model's service: {cause}", operation)
    # Not mem0 refused the text, but a service that may be set up wrongly: the write is worth keeping in its place.
    return Mem0ModelError(operation, found.detail) if isinstance(found, Mem0RejectedError) else found


def _detail(response: httpx.Response) -> str:
    """Return what the server says of the error: `detail`, or whatever it answered, unless it repeats its request."""
    try:
        raw = response.json()
    except (ValueError, RecursionError):
        raw = response.text
    said = raw.get("detail", raw) if isinstance(raw, dict) else raw
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return without_repeated(" ".join(text.split()), _sent_texts(response.request.content)) or response.reason_phrase


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
    if _SECONDS.fullmatch(raw):
        return float(raw)
    try:
        return max(parsedate_to_datetime(raw).timestamp() - time.time(), 0.0)
    except ValueError:
        return None
