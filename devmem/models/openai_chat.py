"""Any chat service that speaks OpenAI's chat completions protocol."""

from __future__ import annotations

import base64
import binascii
import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    SecretStr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from devmem.errors import AnswerRefusedError, ChatModelError, DeadlineError
from devmem.model.message import AttachmentRef, Message, MessageBlock, Role
from devmem.models.chat import MAX_RETRIES, TIMEOUT, ChatReply, ChatRequest, ToolCall, Usage
from devmem.models.http_client import answers_within, library_errors, openai_client
from devmem.redaction import without_repeated
from devmem.text.display import well_formed
from devmem.text.retry import RETRIES_SHARE, within

_LOG: Final = logging.getLogger(__name__)
_MAX_BYTES: Final = 20_000_000
"""Size of the largest attachment that is sent; a larger one is only named."""
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mp3"),
    (b"\xff\xfb", "audio/mp3"),
)
_OPTIONS: Final = ("max_retries", "timeout")
"""Keys of `params` that are the client's, not the service's."""
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}

Part = dict[str, Any]


def chat_message(message: Message, *, attachments: bool = True) -> dict[str, Any]:
    """Return a message in the form of the chat completions API.

    Every block is named in the text. Of what a user sent, images, sound and PDFs follow as parts, unless `attachments`
    is False; the roles of models and tools take text alone.
    """
    # A lone surrogate, with which a text that was cut off may end, cannot be sent as UTF-8.
    plain = {**message.for_chat(), "content": well_formed(message.text())}
    if not attachments or message.role is not Role.USER:
        return plain
    parts = [part for block in message.blocks if (part := content_part(block)) is not None]
    return {**plain, "content": [{"type": "text", "text": plain["content"]}, *parts]} if parts else plain


def content_part(block: MessageBlock) -> Part | None:
    """Return an attachment as a content part; None for what the API has no part for, or cannot be read.

    The content decides what it is, not its name: a stored item that names another file of this machine as its image
    sends nothing.
    """
    ref = block.attachment
    content = _content(ref) if ref is not None else None
    if ref is None or content is None:
        return None
    kind = _kind(content)
    encoded = base64.b64encode(content).decode("ascii")
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{encoded}"}}
    if kind.startswith("audio/"):
        return {"type": "input_audio", "input_audio": {"data": encoded, "format": kind.removeprefix("audio/")}}
    if kind == "application/pdf":
        name = ref.name or f"{ref.attachment_id}.pdf"
        return {"type": "file", "file": {"filename": name, "file_data": f"data:{kind};base64,{encoded}"}}
    return None


def _content(ref: AttachmentRef) -> bytes | None:
    if ref.data_uri is not None:
        head, _, data = ref.data_uri.partition(",")
        if not head.endswith(";base64") or len(data) > _MAX_BYTES * 4 // 3:
            return None
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error:
            return None
    if ref.local_path is None:
        return None
    try:
        path = Path(ref.local_path)
        return path.read_bytes() if path.is_file() and path.stat().st_size <= _MAX_BYTES else None
    except OSError as error:
        _LOG.warning("the attachment %r is sent by its name alone: %s", ref.name or ref.attachment_id, error)
        return None


def _kind(content: bytes) -> str:
    """Return the MIME type that the first bytes show; empty when it is none that can be sent."""
    if content.startswith(b"RIFF"):
        return _RIFF.get(content[8:12], "")
    return next((kind for signature, kind in _SIGNATURES if content.startswith(signature)), "")


class _ServiceAnswer(BaseModel):
    """Services leave out what they have nothing for, and write null."""

    model_config = ConfigDict(extra="ignore")


def _json_of(arguments: object) -> object:
    """Return the arguments of a call as JSON, where a service sends them parsed."""
    return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict | list) else arguments


class _Function(_ServiceAnswer):
    name: str | None = None
    arguments: Annotated[str | None, BeforeValidator(_json_of)] = None


class _RequestedCall(_ServiceAnswer):
    id: str | None = None
    index: int | None = None
    function: _Function | None = None


class _CompletionMessage(_ServiceAnswer):
    content: str | None = None
    tool_calls: list[_RequestedCall] | None = None


class _TokenCounts(_ServiceAnswer):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None

    def counted(self) -> Usage:
        return Usage(input_tokens=self.prompt_tokens or 0, output_tokens=self.completion_tokens or 0)


def _usage_or_none(usage: object, read: ValidatorFunctionWrapHandler) -> _TokenCounts | None:
    """Read what an answer cost; invalid token counts are ignored."""
    try:
        return read(usage)  # type: ignore[no-any-return] # that of `_TokenCounts`
    except ValidationError:
        _LOG.warning("a chat service counts tokens in a form that is not known; they are not reported")
        return None


_Cost = Annotated[_TokenCounts | None, WrapValidator(_usage_or_none)]


class _Choice(_ServiceAnswer):
    message: _CompletionMessage
    finish_reason: object = None


class _Completion(_ServiceAnswer):
    choices: list[_Choice]
    usage: _Cost = None


class _ChunkChoice(_ServiceAnswer):
    delta: _CompletionMessage | None = None
    finish_reason: str | None = None


class _CompletionChunk(_ServiceAnswer):
    choices: list[_ChunkChoice] | None = None
    usage: _Cost = None


def _warn_of_cut(finish_reason: object) -> None:
    if finish_reason == "length":
        _LOG.warning("a chat model's answer was cut off at its maximum length: raise `max_tokens`, or ask for less")


def parse_answer(body: bytes) -> ChatReply:
    """Return the reply in the body of an answer; without choices its text is empty.

    Raises:
        pydantic.ValidationError: it is not an answer to a chat request.
        RecursionError: it is nested too deeply.
    """
    answer = _Completion.model_validate_json(body)
    message = answer.choices[0].message if answer.choices else _CompletionMessage()
    if answer.choices:
        _warn_of_cut(answer.choices[0].finish_reason)
    return ChatReply(
        text=message.content or "",
        tool_calls=_calls(message.tool_calls or ()),
        usage=answer.usage.counted() if answer.usage else None,
    )


class StreamedAnswer:
    """Puts the pieces of one answer together."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calls: dict[int, _RequestedCall] = {}
        self._usage: Usage | None = None
        self.is_finished = False
        """Whether the service said that the answer is complete."""

    def add(self, chunk: dict[str, Any]) -> str:
        """Take a piece, and return its text.

        Raises:
            pydantic.ValidationError: it is none.
        """
        piece = _CompletionChunk.model_validate(chunk)
        if piece.usage is not None:
            self._usage = piece.usage.counted()
        choice = piece.choices[0] if piece.choices else _ChunkChoice()
        self.is_finished = self.is_finished or choice.finish_reason is not None
        _warn_of_cut(choice.finish_reason)
        delta = choice.delta or _CompletionMessage()
        for call in delta.tool_calls or ():
            self._add_call(call)
        text = delta.content or ""
        self._texts.append(text)
        return text

    def _add_call(self, piece: _RequestedCall) -> None:
        known = self._calls.setdefault(len(self._calls) if piece.index is None else piece.index, _RequestedCall())
        known.id = known.id or piece.id
        known.function = known.function or _Function()
        if piece.function is not None:
            known.function.name = known.function.name or piece.function.name
            known.function.arguments = (known.function.arguments or "") + (piece.function.arguments or "")

    def reply(self) -> ChatReply:
        """Return the whole answer."""
        calls = [self._calls[index] for index in sorted(self._calls)]
        return ChatReply(text="".join(self._texts), tool_calls=_calls(calls), usage=self._usage)


def _calls(found: Iterable[_RequestedCall]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(id=call.id or "", name=call.function.name, arguments=call.function.arguments or "")
        for call in found
        if call.function is not None and call.function.name
    )


_REFUSES_PARTS: Final = (400, 404, 415, 422)
"""Statuses with which services answer content that a model does not take, or an option that they do not know."""
Messages: TypeAlias = list[dict[str, Any]]
Params: TypeAlias = dict[str, Any]


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
        self._client = openai_client(
            f"chat model {model!r}",
            ChatModelError,
            api_key=api_key,
            base_url=base_url,
            timeout=timeout,
            max_retries=max_retries,
        )
        import openai

        self._model, self._timeout = model, timeout
        # A stream that breaks off raises the errors of the client's library.
        self._errors = (openai.OpenAIError, library_errors(openai.DefaultHttpxClient), AnswerRefusedError)
        self._refusal = openai.APIStatusError
        self._takes_attachments = self._counts_streams = True

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
        except DeadlineError as error:
            raise ChatModelError(self._worded(f"gave no answer: {error}, retries included")) from None
        except self._errors as error:
            # Without its cause: that one holds the service's own words, which may hold the key.
            said = without_repeated(str(error), [message.content for message in request.messages])
            raise ChatModelError(self._worded(f"gave no answer: {said}")) from None
        except (TypeError, ValueError) as error:
            # A key of `params` that is no argument, or a key that no header can hold.
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

    def _client_for(self, params: Params) -> tuple[Any, float, Params]:
        """Return the client and its seconds for one request, as `params` may set them, and the other parameters."""
        options = {key: params[key] for key in _OPTIONS if key in params}
        if not options:
            return self._client, self._timeout, params
        retries, seconds = options.get("max_retries", 0), options.get("timeout", self._timeout)
        if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
            raise ValueError(f"`max_retries` is a whole number from 0 on, unlike {retries!r}")
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < math.inf:
            raise ValueError(f"`timeout` is a number of seconds above 0, unlike {seconds!r}")
        others = {key: value for key, value in params.items() if key not in _OPTIONS}
        return self._client.with_options(**options), seconds, others

    def _ask(self, messages: Messages, params: Params) -> ChatReply:
        """Parse the body of the answer: the package returns whatever JSON came as if it were right."""
        client, seconds, params = self._client_for(params)
        create = client.chat.completions.with_raw_response.create
        ask = partial(create, model=self._model, messages=cast("Any", messages), **params)
        with answers_within(seconds + RETRIES_SHARE):
            body = within(seconds + RETRIES_SHARE, ask).http_response.content
        try:
            return parse_answer(body)
        except (ValidationError, RecursionError):
            shown = body[:200].decode("utf-8", "replace")
            raise ChatModelError(self._worded(f"gave no answer to a chat request: {shown!r}")) from None

    def _ask_for_pieces(self, messages: Messages, params: Params, on_text: Callable[[str], None]) -> ChatReply:
        counted = {"stream_options": {"include_usage": True}} if self._counts_streams else {}
        client, seconds, params = self._client_for(params)
        create: Any = partial(client.chat.completions.create, model=self._model, messages=cast("Any", messages))
        in_all = seconds + RETRIES_SHARE
        try:
            stream = within(in_all, partial(create, stream=True, **{**counted, **params}))
        except self._refusal as error:
            if not counted or error.status_code not in _REFUSES_PARTS:
                raise
            stream = within(in_all, partial(create, stream=True, **params))
            self._counts_streams = False
        answer = StreamedAnswer()
        with stream:
            for text in self._texts(stream, answer, seconds):
                on_text(text)
        if not answer.is_finished:
            raise ChatModelError(f"chat model {self._model!r} broke off in the middle of an answer")
        return answer.reply()

    def _texts(self, stream: Iterable[Any], answer: StreamedAnswer, seconds: float) -> Iterator[str]:
        """Add the pieces of a stream to an answer, and yield their texts.

        Each piece has a deadline, since a service may keep a stream alive with bytes that are none.
        """
        pieces = iter(stream)
        while True:
            try:
                piece = within(seconds, partial(next, pieces, None))
                if piece is None:
                    return
                text = answer.add(piece.to_dict(warnings=False))
            except DeadlineError as error:
                raise ChatModelError(self._worded(f"came to a halt in its answer: no piece, {error}")) from None
            except self._errors as error:
                raise ChatModelError(self._worded(f"broke off in the middle of an answer: {error}")) from None
            except (ValueError, AttributeError):
                raise ChatModelError(self._worded("sent something that is no piece of an answer")) from None
            if text:
                yield text

    def _usable(self, reply: ChatReply) -> ChatReply:
        if not reply.text and not reply.tool_calls:
            usage = reply.usage or Usage()
            raise ChatModelError(
                f"chat model {self._model!r} answered without a text",
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
            )
        return reply

    def _worded(self, what: str) -> str:
        return f"chat model {self._model!r} {what}"
