"""The `openai` provider: any service that answers `POST /embeddings` as OpenAI's does."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError

from devmem.config.store import EmbeddingConfig
from devmem.errors import (
    AnswerRefusedError,
    DeadlineError,
    EmbeddingError,
    EmbeddingUnavailableError,
    RequestRefusedError,
    TextsRefusedError,
)
from devmem.model.items import Vector
from devmem.models.embedder import ModelIdentity, unit_rows
from devmem.models.http_client import answers_within, openai_client
from devmem.redaction import without_repeated
from devmem.text.display import one_line
from devmem.text.retry import RETRIES_SHARE, Backoff, within

if TYPE_CHECKING:
    from openai import OpenAI

T = TypeVar("T")


class _Embedding(BaseModel):
    embedding: list[float] | str
    """Numbers; or their bytes as float32 in base64, which some services send whatever they are asked for."""
    index: int | None = None


class _Embeddings(BaseModel):
    data: list[_Embedding]


def read_answer(body: bytes, *, texts: Sequence[str], address: str) -> Vector:
    """Return the vectors in the order of the texts, shape (len(texts), dimension).

    Entries come in any order and name their text by `index`; those without one come in order.

    Raises:
        EmbeddingError: the body is not an answer, not one vector a text, or vectors of unequal length.
    """
    try:
        entries = _Embeddings.model_validate(json.loads(body)).data
    except (ValidationError, ValueError, RecursionError):
        # RecursionError: arrays in arrays, deeper than Python reads. Without its cause, which quotes the body.
        raise EmbeddingError(f"{address}: not an answer to an embedding request: {_shown(body, texts)}") from None
    count = len(texts)
    rows = {place if entry.index is None else entry.index: _row(entry, address) for place, entry in enumerate(entries)}
    if len(entries) != count or rows.keys() != set(range(count)):
        raise EmbeddingError(f"{address}: asked to embed {count} texts, got vectors for {sorted(rows)}")
    widths = {len(row) for row in rows.values()}
    if len(widths) != 1:
        raise EmbeddingError(f"{address}: the vectors of one answer have different lengths: {sorted(widths)}")
    return np.array([rows[number] for number in range(count)])


def _row(entry: _Embedding, address: str) -> Vector:
    if isinstance(entry.embedding, list):
        with np.errstate(over="ignore"):  # what is too large becomes infinite, which the caller refuses
            return np.array(entry.embedding, dtype=np.float32)
    try:
        return np.frombuffer(b64decode(entry.embedding, validate=True), dtype="<f4").astype(np.float32)
    except ValueError as error:
        raise EmbeddingError(f"{address}: a vector is a text, but not float32s in base64: {error}") from error


def _shown(body: bytes, texts: Sequence[str]) -> str:
    return without_repeated(repr(body[:200].decode("utf-8", "replace")), texts)


_LONGEST_WORDS: Final = 500
"""Characters of a service's words that are repeated."""
_SLOW, _BUSY, _SERVERS_FAULT = 408, 429, 500
_REFUSALS: Final = (400, 413, 422)
"""Statuses with which services answer a text that is too long, or too many texts."""


@contextmanager
def translated_errors(*, address: str, texts: Sequence[str] = ()) -> Iterator[None]:
    """Turn what the `openai` package raises inside the block into our errors.

    Args:
        address: Where the request went, for the message.
        texts: What the service was sent, which is not repeated either.
    """
    import openai

    try:
        yield
    except DeadlineError as error:
        said = f"{address}: {error}; raise `timeout` or try again"
        raise EmbeddingUnavailableError(said) from error
    except AnswerRefusedError as error:
        raise EmbeddingUnavailableError(f"{address}: {error}") from error
    except openai.APITimeoutError as error:
        raise EmbeddingUnavailableError(f"{address}: no answer in time; raise `timeout` or try again") from error
    except openai.APIConnectionError as error:
        # Without its cause, here and below: it holds the library's own words, which may hold the key.
        raise EmbeddingUnavailableError(f"{address}: no connection: {error.__cause__ or error}") from None
    except openai.APIStatusError as error:
        refusal = RequestRefusedError if error.status_code in _REFUSALS else EmbeddingError
        passes = error.status_code in (_SLOW, _BUSY) or error.status_code >= _SERVERS_FAULT
        kind = EmbeddingUnavailableError if passes else refusal
        said = without_repeated(_message(error), texts)
        raise kind(f"{address}: status {error.status_code}: {said}") from None
    except openai.OpenAIError as error:
        raise EmbeddingError(f"{address}: {error}") from None


def _message(error: object) -> str:
    body = getattr(error, "body", None)
    said = body["message"] if isinstance(body, dict) and body.get("message") else body or error
    return one_line(str(said))[:_LONGEST_WORDS]


DEFAULT_MODEL: Final = "text-embedding-3-small"
"""Model of a block that names none."""
_BATCH_CHARACTERS = 200_000
"""Maximum number of characters in one request: OpenAI takes 300 000 tokens, and a Chinese character can be several."""
_WIDEST = 8192
"""Numbers of the longest vector that a text may get where the configuration names no length."""
_NUMBER = 32
"""Bytes that a number of an answer takes at most, with the spaces beside it."""
_SPARE = 1_000_000
"""Bytes of an answer that are for whatever else it says."""
_LONG_WAIT = 2.0
"""Seconds from which a failure is not repeated by the next caller."""


class OpenAIEmbedder:
    """Asks the service through the `openai` package; its client is made at the first text."""

    def __init__(self, config: EmbeddingConfig) -> None:
        self._config, self._params = config, config.params
        self._model = config.model or DEFAULT_MODEL
        self._making = Lock()
        self._client: OpenAI | None = None
        self._backoff = Backoff(first=30.0, longest=600.0)
        self._most_texts = config.params.batch_size
        """Number of texts that the service accepts in one request, as far as it has shown."""

    @property
    def identity(self) -> ModelIdentity:
        """Identity by model and requested length; the same model at another address is the same."""
        size = self._params.dimensions
        name = f"openai:{self._model}" if size is None else f"openai:{self._model}:{size}"
        return ModelIdentity(name=name, dimension=size)

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts, shape (len(texts), dimension), in as many requests as `batch_size` makes of them.

        Raises:
            MissingExtraError: the package `openai` is not installed.
            EmbeddingUnavailableError: no connection, no answer in time, 429 or 5xx, after all retries.
            TextsRefusedError: the service refuses some texts, and would accept others.
            EmbeddingError: no key; the service refuses every request; its answer is not what it should be.
        """
        client = self._open()
        answers = [answer for batch in self._batches(texts) for answer in self._ask_in_parts(client, batch)]
        refused = {at: answer for at, answer in enumerate(answers) if isinstance(answer, str)}
        rows = [answer for answer in answers if not isinstance(answer, str)]
        widths = dict.fromkeys(len(row) for row in rows)
        if widths.keys() - {self._params.dimensions or next(iter(widths), 0)}:
            raise EmbeddingError(
                f"{self._model!r} gave vectors of length {', '.join(map(str, widths))}; "
                f"`dimensions` asks for {self._params.dimensions or 'one length for all'}"
            )
        vectors = unit_rows(np.array(rows).reshape(len(rows), -1 if rows else 0), source=repr(self._model))
        if refused:
            raise TextsRefusedError(refused, vectors)
        return vectors

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        size = 0
        for text in texts:
            if batch and (len(batch) >= self._most_texts or size + len(text) > _BATCH_CHARACTERS):
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += len(text)
        yield batch

    def _ask_in_parts(self, client: OpenAI, texts: list[str], *, is_half: bool = False) -> list[Vector | str]:
        """Return the vector of each text; where the service refuses the text by itself, why.

        What it refuses is halved. Where it accepts both halves, there were too many texts, and the number is kept.

        Raises:
            EmbeddingError: it refuses any text, as one that is asked for a model that it does not have.
        """
        if len(texts) > self._most_texts:
            parts = [texts[at : at + self._most_texts] for at in range(0, len(texts), self._most_texts)]
            return [answer for part in parts for answer in self._ask_in_parts(client, part, is_half=is_half)]
        try:
            return [*self._ask(client, texts)]
        except RequestRefusedError as error:
            if not is_half:
                self._ask(client, ["probe"])
            if len(texts) == 1:
                return [
                    f"{error} (a text of {len(texts[0]):,} characters; if that is too long, set `max_length` in the "
                    "embedding's `params` below it)"
                ]
        middle = (len(texts) + 1) // 2
        halves = (texts[:middle], texts[middle:])
        answers = [answer for half in halves for answer in self._ask_in_parts(client, half, is_half=True)]
        if not any(isinstance(answer, str) for answer in answers):
            self._most_texts = min(self._most_texts, middle)
        return answers

    def _ask(self, client: OpenAI, texts: list[str]) -> Vector:
        size = self._params.dimensions
        with translated_errors(address=str(client.base_url), texts=texts):
            # The package gives whatever JSON it got as if it were right; the raw answer can be checked.
            ask = partial(
                client.embeddings.with_raw_response.create,
                model=self._model,
                input=texts,
                encoding_format="float",
                extra_body=None if size is None else {"dimensions": size},
            )
            answer = self._patiently(ask, _SPARE + len(texts) * (size or _WIDEST) * _NUMBER)
        return read_answer(answer.http_response.content, texts=texts, address=str(client.base_url))

    def _patiently(self, ask: Callable[[], T], limit: int) -> T:
        """Ask for an answer of limited size, unless the service cost its callers a long wait a moment ago."""
        if not self._backoff.admits():
            raise DeadlineError(f"it kept callers waiting, and is asked again in {self._backoff.left:.0f} s")
        seconds, started = self._params.timeout + RETRIES_SHARE, time.monotonic()
        try:
            with answers_within(seconds, limit=limit):
                answer = within(seconds, ask)
        except Exception as error:
            is_refusal = getattr(error, "status_code", None) in _REFUSALS
            if time.monotonic() - started >= _LONG_WAIT and not is_refusal:
                self._backoff.failed()
            raise
        self._backoff.worked()
        return answer

    def _open(self) -> OpenAI:
        with self._making:
            if self._client is None:
                self._client = openai_client(
                    "the embedding provider 'openai'",
                    EmbeddingError,
                    api_key=self._config.api_key,
                    base_url=self._config.base_url,
                    timeout=self._params.timeout,
                    max_retries=self._params.max_retries,
                )
            return self._client
