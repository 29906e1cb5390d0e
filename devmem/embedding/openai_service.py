"""The `openai` provider: any service that answers `POST /embeddings` as OpenAI's does."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from devmem.config.embedding import EmbeddingConfig
from devmem.credentials import without_credentials
from devmem.embedding.base import ModelIdentity
from devmem.embedding.openai_answer import read_answer
from devmem.embedding.openai_errors import translated_errors
from devmem.embedding.rows import unit_rows
from devmem.errors import EmbeddingError, MissingExtraError
from devmem.model.items import Vector
from devmem.text.deadline import RETRIES_SHARE, within

if TYPE_CHECKING:
    from openai import OpenAI

_MODEL = "text-embedding-3-small"
_KEY_VARIABLE = "OPENAI_API_KEY"
_PLACEHOLDER = re.compile(r"\$\{?\w*\}?")
_CHARACTERS_AT_ONCE = 200_000
"""Maximum number of characters in one request: OpenAI takes 300 000 tokens, and a Chinese character can be several."""


class Provider:
    """Asks the service through the `openai` package; its client is made at the first text."""

    def __init__(self, config: EmbeddingConfig) -> None:
        self._config, self._params = config, config.params
        self._model = config.model or _MODEL
        self._making = Lock()
        self._client: OpenAI | None = None

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
            EmbeddingError: no key; the service refuses the request; its answer is not what it should be.
        """
        client = self._open()
        parts = [self._ask(client, batch) for batch in self._batches(texts)]
        widths = {part.shape[1] for part in parts} | {self._params.dimensions or parts[0].shape[1]}
        if len(widths) > 1:
            raise EmbeddingError(
                f"{self._model!r} gave vectors of length {', '.join(str(part.shape[1]) for part in parts)}; "
                f"`dimensions` asks for {self._params.dimensions or 'one length for all'}"
            )
        return unit_rows(np.concatenate(parts), source=repr(self._model))

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        size = 0
        for text in texts:
            if batch and (len(batch) == self._params.batch_size or size + len(text) > _CHARACTERS_AT_ONCE):
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += len(text)
        yield batch

    def _ask(self, client: OpenAI, texts: list[str]) -> Vector:
        size = self._params.dimensions
        with translated_errors(address=str(client.base_url), secret=client.api_key):
            # The package gives whatever JSON it got as if it were right; the raw answer can be checked.
            ask = partial(
                client.embeddings.with_raw_response.create,
                model=self._model,
                input=texts,
                encoding_format="float",
                extra_body=None if size is None else {"dimensions": size},
            )
            answer = within(self._params.timeout + RETRIES_SHARE, ask)
        address = without_credentials(str(client.base_url))
        return read_answer(answer.http_response.content, count=len(texts), address=address)

    def _open(self) -> OpenAI:
        with self._making:
            if self._client is None:
                self._client = self._make_client()
            return self._client

    def _make_client(self) -> OpenAI:
        try:
            from openai import OpenAI
        except ImportError as error:
            raise MissingExtraError(
                feature="the embedding provider 'openai'", package="openai", extra="openai"
            ) from error
        address = self._config.base_url
        if address is not None and not address.startswith(("http://", "https://")):
            shown = without_credentials(address)
            raise EmbeddingError(f"the embedding's `base_url` begins with http:// or https://, unlike {shown!r}")
        return OpenAI(
            api_key=self._key(),
            base_url=address,
            timeout=self._params.timeout,
            max_retries=self._params.max_retries,
        )

    def _key(self) -> str:
        given = self._config.api_key
        key = given.get_secret_value() if given is not None else os.environ.get(_KEY_VARIABLE, "")
        if not key or _PLACEHOLDER.fullmatch(key):
            found = f"{key!r} was not replaced" if key else "none is given"
            raise EmbeddingError(
                f"the embedding provider 'openai' has no key: {found}. "
                f"Set `api_key`, or the environment's {_KEY_VARIABLE}; a service without keys takes any word."
            )
        return key
