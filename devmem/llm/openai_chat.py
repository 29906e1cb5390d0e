"""Any chat service that speaks OpenAI's chat completions protocol."""

from __future__ import annotations

from typing import Any, Final, cast

from pydantic import BaseModel, SecretStr, ValidationError

from devmem.errors import ChatModelError, MissingExtraError
from devmem.llm.base import ChatReply, ChatRequest

TIMEOUT: Final = 120.0
"""Seconds for one request."""
MAX_RETRIES: Final = 4


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class _Answer(BaseModel):
    choices: list[_Choice]


class OpenAIChat:
    """A chat model behind an OpenAI-compatible service; retries with back-off are the client's own."""

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
            timeout: seconds for one request.
            max_retries: how often a request is repeated after 429, 5xx and time-outs.

        Raises:
            MissingExtraError: the `openai` package is not installed.
            ChatModelError: there is no key.
        """
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError(feature="provider: openai", package="openai", extra="openai") from error
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise ChatModelError(f"`base_url` begins with http:// or https://, unlike {base_url!r}")
        self._model = model
        self._errors = openai.OpenAIError
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
        """Ask the service.

        Raises:
            ChatModelError: it refused, did not answer, or answered without a text.
        """
        messages = cast("Any", [message.for_chat() for message in request.messages])
        params = cast("dict[str, Any]", dict(request.params))
        if params.get("stream"):
            raise ChatModelError(f"chat model {self._model!r}: `params` sets `stream`, but an answer is taken whole")
        completions = self._client.chat.completions.with_raw_response
        try:
            # The package gives whatever JSON it got as if it were right; the raw answer can be checked.
            answer = completions.create(model=self._model, messages=messages, **params)
        except self._errors as error:
            # Without its cause: that one holds the service's own words, which may hold the key.
            raise ChatModelError(self._worded(f"gave no answer: {error}")) from None
        except (TypeError, ValueError) as error:
            # A key of `params` that is no argument, or a text that cannot be sent.
            raise ChatModelError(self._worded(f"cannot be asked this: {error}")) from None
        return ChatReply(text=self._text(answer.http_response.content))

    def _text(self, body: bytes) -> str:
        try:
            choices = _Answer.model_validate_json(body).choices
        except ValidationError:
            shown = body[:200].decode("utf-8", "replace")
            raise ChatModelError(self._worded(f"gave no answer to a chat request: {shown!r}")) from None
        text = choices[0].message.content if choices else None
        if not text:
            raise ChatModelError(f"chat model {self._model!r} answered without a text")
        return text

    def _worded(self, what: str) -> str:
        return f"chat model {self._model!r} {what.replace(self._secret, '***')}"
