"""Any chat service that speaks OpenAI's chat completions protocol."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Final, cast

from pydantic import BaseModel, SecretStr, ValidationError

from devmem.errors import ChatModelError, MissingExtraError
from devmem.llm.base import ChatReply, ChatRequest
from devmem.llm.content_parts import chat_message
from devmem.text.deadline import RETRIES_SHARE, DeadlineExceededError, within
from devmem.text.display import without_credentials

_LOG: Final = logging.getLogger(__name__)

TIMEOUT: Final = 120.0
"""Seconds for one request."""
MAX_RETRIES: Final = 4
_REFUSES_PARTS: Final = (400, 404, 415, 422)
"""Statuses with which services answer content that a model does not take."""


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class _Answer(BaseModel):
    choices: list[_Choice]


class OpenAIChat:
    """A chat model behind an OpenAI-compatible service; retries with backoff are the client's own."""

    def __init__(
        self,
        model: str,
        *,
        api_key: SecretStr | None = None,
        base_url: str | None = None,
        timeout: float = TIMEOUT,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        """Connect to a service; nothing is sent yet.

        Args:
            model: the service's name of the model.
            api_key: None takes the environment's OPENAI_API_KEY.
            base_url: None takes the environment's OPENAI_BASE_URL, then OpenAI's own address.
            timeout: seconds for one request; its retries may take half a minute more together.
            max_retries: maximum number of times that a request is repeated after 429, 5xx and time-outs.

        Raises:
            MissingExtraError: the `openai` package is not installed.
            ChatModelError: there is no key.
        """
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError(feature="provider: openai", package="openai", extra="openai") from error
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            shown = without_credentials(base_url)
            raise ChatModelError(f"`base_url` begins with http:// or https://, unlike {shown!r}")
        self._model, self._timeout = model, timeout
        self._errors, self._refusal = openai.OpenAIError, openai.APIStatusError
        self._takes_attachments = True
        try:
            self._client = openai.OpenAI(
                api_key=api_key.get_secret_value() if api_key else None,
                base_url=base_url,
                timeout=timeout,
                max_retries=max_retries,
            )
        except openai.OpenAIError as error:
            raise ChatModelError(
                f"chat model {model!r} has no key: set `api_key`, or OPENAI_API_KEY in the environment "
                "(agents and `llm:` blocks need neither with `provider: extractive`)."
            ) from error
        self._secret = self._client.api_key

    def complete(self, request: ChatRequest) -> ChatReply:
        """Ask the service; images, sound and PDFs of the messages go with them.

        A service that refuses these is asked again with their names alone, once and for all.

        Raises:
            ChatModelError: it refused, did not answer, or answered without a text.
        """
        params = cast("dict[str, Any]", dict(request.params))
        if params.get("stream"):
            raise ChatModelError(f"chat model {self._model!r}: `params` sets `stream`, but an answer is taken whole")
        if given := sorted({"model", "messages"} & params.keys()):
            raise ChatModelError(f"chat model {self._model!r}: `params` sets `{given[0]}`, which the node sets already")
        named = [chat_message(message, attachments=False) for message in request.messages]
        whole = [chat_message(message) for message in request.messages] if self._takes_attachments else named
        try:
            try:
                body = self._ask(whole, params)
            except self._refusal as error:
                if whole == named or error.status_code not in _REFUSES_PARTS:
                    raise
                body = self._ask(named, params)
                self._takes_attachments = False
                _LOG.warning(
                    "chat model %r does not take images and other attachments; they are named to it", self._model
                )
        except DeadlineExceededError as error:
            raise ChatModelError(self._worded(f"gave no answer: {error}, retries included")) from None
        except self._errors as error:
            # Without its cause: that one holds the service's own words, which may hold the key.
            raise ChatModelError(self._worded(f"gave no answer: {error}")) from None
        except (TypeError, ValueError) as error:
            # A key of `params` that is no argument, or a text that cannot be sent.
            raise ChatModelError(self._worded(f"cannot be asked this: {error}")) from None
        return ChatReply(text=self._text(body))

    def _ask(self, messages: list[dict[str, Any]], params: dict[str, Any]) -> bytes:
        """Return the body of the answer: the package returns whatever JSON came as if it were right."""
        create = self._client.chat.completions.with_raw_response.create
        ask = partial(create, model=self._model, messages=cast("Any", messages), **params)
        return within(self._timeout + RETRIES_SHARE, ask).http_response.content

    def _text(self, body: bytes) -> str:
        try:
            choices = _Answer.model_validate_json(body).choices
        except (ValidationError, RecursionError):
            shown = body[:200].decode("utf-8", "replace")
            raise ChatModelError(self._worded(f"gave no answer to a chat request: {shown!r}")) from None
        text = choices[0].message.content if choices else None
        if not text:
            raise ChatModelError(f"chat model {self._model!r} answered without a text")
        return text

    def _worded(self, what: str) -> str:
        return f"chat model {self._model!r} {without_credentials(what.replace(self._secret, '***'))}"
