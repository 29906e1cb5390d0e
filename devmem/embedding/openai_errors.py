"""From the errors of the `openai` package to ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from devmem.credentials import without_credentials
from devmem.errors import EmbeddingError, EmbeddingUnavailableError
from devmem.text.deadline import DeadlineExceededError

_SLOW, _BUSY, _SERVERS_FAULT = 408, 429, 500


@contextmanager
def translated_errors(*, address: str, secret: str) -> Iterator[None]:
    """Turn what the `openai` package raises inside the block into our errors.

    Args:
        address: Where the request went, for the message.
        secret: The key; some services repeat it in their message, ours never does.
    """
    import openai

    address = without_credentials(address)
    try:
        yield
    except DeadlineExceededError as error:
        said = f"{address}: {error}, retries included; raise `timeout` or try again"
        raise EmbeddingUnavailableError(said) from error
    except openai.APITimeoutError as error:
        raise EmbeddingUnavailableError(f"{address}: no answer in time; raise `timeout` or try again") from error
    except openai.APIConnectionError as error:
        reason = without_credentials(str(error.__cause__ or error))
        raise EmbeddingUnavailableError(f"{address}: no connection: {reason}") from error
    except openai.APIStatusError as error:
        kind = EmbeddingUnavailableError if _passes(error.status_code) else EmbeddingError
        said = _message(error).replace(secret, "***")
        # Without its cause: that one holds the service's own words, which may hold the key.
        raise kind(f"{address}: status {error.status_code}: {said}") from None
    except openai.OpenAIError as error:
        raise EmbeddingError(f"{address}: {str(error).replace(secret, '***')}") from None


def _passes(status: int) -> bool:
    return status in (_SLOW, _BUSY) or status >= _SERVERS_FAULT


def _message(error: object) -> str:
    body = getattr(error, "body", None)
    if isinstance(body, dict) and body.get("message"):
        return str(body["message"])
    return str(body or error)
