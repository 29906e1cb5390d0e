"""Any chat service that speaks OpenAI's chat completions protocol."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeAlias, cast

from pydantic import SecretStr, ValidationError

from devmem.credentials import without_credentials
from devmem.errors import ChatModelError, MissingExtraError
from devmem.llm.base import ChatReply, ChatRequest
from devmem.llm.content_parts import chat_message
from devmem.llm.openai_answers import StreamedAnswer, parse_answer
from devmem.text.deadline import RETRIES_SHARE, DeadlineExceededError, within

_LOG: Final = logging.getLogger(__name__)

TIMEOUT: Final = 120.0
"""Seconds for one request."""
MAX_RETRIES: Final = 4
_REFUSES_PARTS: Final = (400, 404, 415, 422)
"""Statuses with which services answer content that a model does not take, or an option that they do not know."""
Messages: TypeAlias = list[dict[str, Any]]
Params: TypeAlias = dict[str, Any]


def _check_address(base_url: str | None) -> None:
    """Raise `ChatModelError` for an address that no service can have."""
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise ChatModelError(f"`base_url` begins with http:// or https://, unlike {without_credentials(base_url)!r}")


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
            import httpx
            import openai
        except ImportError as error:
            raise MissingExtraError(feature="provider: openai", package="openai", extra="openai") from error
        _check_address(base_url)
        self._model, self._timeout = model, timeout
        # A stream that breaks off raises httpx's errors.
        self._errors, self._refusal = (openai.OpenAIError, httpx.HTTPError), openai.APIStatusError
        self._takes_attachments = self._counts_streams = True
        key = api_key.get_secret_value() if api_key else None
        try:
            self._client = openai.OpenAI(api_key=key, base_url=base_url, timeout=timeout, max_retries=max_retries)
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
            ChatModelError: it refused, did not answer, or answered with neither a text nor a call of a tool.
        """
        return self._usable(self._asking(request, self._ask))

    def stream(self, request: ChatRequest, on_text: Callable[[str], None]) -> ChatReply:
        """Ask the service as `complete` does, and hand out the pieces of its answer while they come.

        Raises:
            ChatModelError: it refused, did not answer, or the answer broke off or came to a halt; what had come was
                handed out.
        """
        return self._usable(self._asking(request, partial(self._ask_for_pieces, on_text=on_text)))

    def _asking(self, request: ChatRequest, ask: Callable[[Messages, Params], ChatReply]) -> ChatReply:
        params = self._checked_params(request)
        named = [chat_message(message, attachments=False) for message in request.messages]
        whole = [chat_message(message) for message in request.messages] if self._takes_attachments else named
        try:
            try:
                return ask(whole, params)
            except self._refusal as error:
                if whole == named or error.status_code not in _REFUSES_PARTS:
                    raise
                reply = ask(named, params)
                self._takes_attachments = False
                _LOG.warning(
                    "chat model %r does not take images and other attachments; they are named to it", self._model
                )
                return reply
        except DeadlineExceededError as error:
            raise ChatModelError(self._worded(f"gave no answer: {error}, retries included")) from None
        except self._errors as error:
            # Without its cause: that one holds the service's own words, which may hold the key.
            raise ChatModelError(self._worded(f"gave no answer: {error}")) from None
        except (TypeError, ValueError) as error:
            # A key of `params` that is no argument, or a text that cannot be sent.
            raise ChatModelError(self._worded(f"cannot be asked this: {error}")) from None

    def _checked_params(self, request: ChatRequest) -> Params:
        params = cast("Params", dict(request.params))
        if params.get("stream"):
            raise ChatModelError(
                f"chat model {self._model!r}: `params` sets `stream`; leave it out, and have the runner stream "
                "(`devmem run --stream`, or `on_text` of `WorkflowRunner`)"
            )
        if given := sorted({"model", "messages"} & params.keys()):
            raise ChatModelError(f"chat model {self._model!r}: `params` sets `{given[0]}`, which the node sets already")
        return params

    def _ask(self, messages: Messages, params: Params) -> ChatReply:
        """Parse the body of the answer: the package returns whatever JSON came as if it were right."""
        create = self._client.chat.completions.with_raw_response.create
        ask = partial(create, model=self._model, messages=cast("Any", messages), **params)
        body = within(self._timeout + RETRIES_SHARE, ask).http_response.content
        try:
            return parse_answer(body)
        except (ValidationError, RecursionError):
            shown = body[:200].decode("utf-8", "replace")
            raise ChatModelError(self._worded(f"gave no answer to a chat request: {shown!r}")) from None

    def _ask_for_pieces(self, messages: Messages, params: Params, on_text: Callable[[str], None]) -> ChatReply:
        counted = {"stream_options": {"include_usage": True}} if self._counts_streams else {}
        create: Any = partial(self._client.chat.completions.create, model=self._model, messages=cast("Any", messages))
        seconds = self._timeout + RETRIES_SHARE
        try:
            stream = within(seconds, partial(create, stream=True, **{**counted, **params}))
        except self._refusal as error:
            if not counted or error.status_code not in _REFUSES_PARTS:
                raise
            stream = within(seconds, partial(create, stream=True, **params))
            self._counts_streams = False
        answer = StreamedAnswer()
        with stream:
            for text in self._texts(stream, answer):
                on_text(text)
        if not answer.is_finished:
            raise ChatModelError(f"chat model {self._model!r} broke off in the middle of an answer")
        return answer.reply()

    def _texts(self, stream: Iterable[Any], answer: StreamedAnswer) -> Iterator[str]:
        """Add the pieces of a stream to an answer, and yield their texts.

        Each piece has a deadline, since a service may keep a stream alive with bytes that are none.
        """
        pieces = iter(stream)
        while True:
            try:
                piece = within(self._timeout, partial(next, pieces, None))
                if piece is None:
                    return
                text = answer.add(piece.to_dict(warnings=False))
            except DeadlineExceededError as error:
                raise ChatModelError(self._worded(f"came to a halt in its answer: no piece, {error}")) from None
            except self._errors as error:
                raise ChatModelError(self._worded(f"broke off in the middle of an answer: {error}")) from None
            except (ValueError, AttributeError):
                raise ChatModelError(self._worded("sent something that is no piece of an answer")) from None
            if text:
                yield text

    def _usable(self, reply: ChatReply) -> ChatReply:
        if not reply.text and not reply.tool_calls:
            raise ChatModelError(f"chat model {self._model!r} answered without a text")
        return reply

    def _worded(self, what: str) -> str:
        return f"chat model {self._model!r} {without_credentials(what.replace(self._secret, '***'))}"
