"""Any chat service that speaks OpenAI's chat completions protocol."""

from __future__ import annotations

from typing import Any, cast

from pydantic import SecretStr

from devmem.errors import ChatModelError, MissingExtraError
from devmem.llm.base import ChatReply, ChatRequest


class OpenAIChat:
    """A chat model behind an OpenAI-compatible service; retries with back-off are the client's own."""

    def __init__(
        self,
        model: str,
        *,
        api_key: SecretStr | None = None,
        base_url: str | None = None,
        timeout: float = 120.0,
        max_retries: int = 4,
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
                f"chat model {model!r} has no key: set `api_key` on the node, or OPENAI_API_KEY in the environment "
                "(`provider: extractive` needs neither)."
            ) from error

    def complete(self, request: ChatRequest) -> ChatReply:
        """Ask the service.

        Raises:
            ChatModelError: it refused, did not answer, or answered without a text.
        """
        messages = cast("Any", [message.for_chat() for message in request.messages])
        params = cast("dict[str, Any]", dict(request.params))
        try:
            answer = self._client.chat.completions.create(model=self._model, messages=messages, **params)
        except self._errors as error:
            raise ChatModelError(f"chat model {self._model!r} gave no answer: {error}") from error
        except TypeError as error:
            raise ChatModelError(
                f"chat model {self._model!r}: `params` has a key that the client refuses: {error}"
            ) from error
        text = answer.choices[0].message.content if answer.choices else None
        if not isinstance(text, str) or not text:
            raise ChatModelError(f"chat model {self._model!r} answered without a text")
        return ChatReply(text=text)
