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

from typing import ClassVar

from devmem import DevmemError


class Mem0Error(DevmemError):
    """mem0 could not do what it was asked; the text never holds the key."""

    advice: ClassVar[str] = ""
    retryable: ClassVar[bool] = False
    """The same request may work in a moment."""
    ill: ClassVar[bool] = True
    """It speaks against the service, not against one request."""

    def __init__(self, operation: str, detail: str, *, maybe_done: bool = False) -> None:
        self.operation, self.detail, self.maybe_done = operation, detail, maybe_done
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

    def __init__(self, operation: str, detail: str, *, status: int) -> None:
        self.status = status
        super().__init__(operation, detail, maybe_done=True)


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

    def __init__(self, operation: str, detail: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(operation, detail)


class Mem0UnavailableError(Mem0Error):
    """mem0 failed repeatedly, and requests back off."""

    def __init__(self, operation: str, *, wait: float, cause: Mem0Error | None) -> None:
        """Take the seconds until the next request is sent, and the last failure."""
        self.wait, self.cause = wait, cause
        last = f" The last failure: {cause.detail}" if cause else ""
        super().__init__(operation, f"it failed repeatedly; the next request is sent in {wait:.0f} s.{last}")
