"""Which tool of `devmem mcp` a model calls for what a user says, and with which arguments.

The sentences, each with the tool and the arguments that are expected, are in `tool_choice.yaml`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml
from mcp import Client, types
from pydantic import JsonValue

import devmem
from devmem.adapters.mcp import make_server
from devmem.messages import SystemMessage, UserMessage
from devmem.models import ChatRequest
from devmem.models.openai_chat import OpenAIChat
from tools.bench.rows import JsonFile, Row, report

SENTENCES: Final = Path(__file__).with_suffix(".yaml")
_PART: Final = "~"
"""Begins an expected value that an argument need only contain."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a user, and the call that it asks for."""

    say: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Choice:
    """The call that a model made; without a name it made none."""

    tool: str
    arguments: Mapping[str, Any]


def command(
    model: Annotated[str | None, typer.Argument(help="Name of a chat model that calls tools.")] = None,
    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible address; OPENAI_BASE_URL otherwise.")] = None,
    answers: Annotated[
        Path | None, typer.Option(help='Score these calls instead: [{"tool": ..., "arguments": {...}}, ...].')
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Try the tools of `devmem mcp` on 60 sentences."""
    sentences = read_sentences()
    if answers is not None:
        read = json.loads(answers.read_text(encoding="utf-8"))
        if len(read) != len(sentences):
            raise typer.BadParameter(f"{answers} has {len(read)} answers; there are {len(sentences)} sentences")
        choices = [Choice(each["tool"], each["arguments"]) for each in read]
    elif model is not None:
        choices = asyncio.run(_asked(OpenAIChat(model, base_url=base_url), sentences))
    else:
        raise typer.BadParameter("name a model, or give --answers")
    report(list(scored(sentences, choices, model or "answers")), json_file)


def read_sentences() -> list[Sentence]:
    """Return the sentences in their order."""
    return [Sentence(each["say"], each["tool"], each["with"]) for each in yaml.safe_load(SENTENCES.read_text("utf-8"))]


def scored(sentences: Sequence[Sentence], choices: Sequence[Choice], case: str) -> Iterator[Row]:
    """Yield the shares of sentences with the right tool, and with the right arguments too; print the others."""
    right = whole = 0
    for sentence, choice in zip(sentences, choices, strict=True):
        is_tool = choice.tool == sentence.tool
        is_whole = is_tool and all(_fits(want, choice.arguments.get(name)) for name, want in sentence.arguments.items())
        right, whole = right + is_tool, whole + is_whole
        if not is_whole:
            typer.echo(f"{sentence.say}\n  expected {sentence.tool} {dict(sentence.arguments)}", err=True)
            typer.echo(f"  called   {choice.tool} {dict(choice.arguments)}", err=True)
    for metric, count in (("tool", right), ("tool_and_arguments", whole)):
        yield Row(bench="tool_choice", case=case, metric=metric, value=count / len(sentences), unit="share")


def _fits(want: object, got: object) -> bool:
    """Whether an argument is as expected; words need be contained only, in any case, anywhere in the argument."""
    if isinstance(want, str) and want.startswith(_PART):
        return want.removeprefix(_PART).casefold() in json.dumps(got, ensure_ascii=False).casefold()
    if isinstance(want, list) and isinstance(got, list):
        return len(want) == len(got) and all(_fits(one, other) for one, other in zip(want, got, strict=True))
    return want == got


async def _asked(chat: OpenAIChat, sentences: Sequence[Sentence]) -> list[Choice]:
    with devmem.open(":memory:", embedding=None) as memory:
        server = make_server(memory)
        async with Client(server) as client:
            tools: list[JsonValue] = [_function(tool) for tool in (await client.list_tools()).tools]
    choices = []
    for sentence in sentences:
        messages = (SystemMessage(server.instructions or ""), UserMessage(sentence.say))
        calls = chat.complete(ChatRequest(messages=messages, params={"tools": tools, "temperature": 0})).tool_calls
        choices.append(Choice(calls[0].name, json.loads(calls[0].arguments)) if calls else Choice("", {}))
    return choices


def _function(tool: types.Tool) -> JsonValue:
    described: JsonValue = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": described}
