"""Commands that are imported when they are used, so that `devmem --version` and `devmem --help` start fast."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

# typer uses click, or from 0.26 on a copy of its own, and keeps the types of both to itself: hence `Any` below.


CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""How every command shows its help."""


class LazyCommand(TyperCommand):
    """A command whose module is imported when it is about to run."""

    def __init__(self, name: str, target: str, summary: str) -> None:
        """Name a command.

        Args:
            name: what a user types.
            target: the function behind it, as `package.module:function`.
            summary: its line in the list of commands.
        """
        super().__init__(name, short_help=summary, help=summary)
        self._target = target

    @cached_property
    def loaded(self) -> Any:  # noqa: ANN401 - a command of typer
        """The command itself."""
        module, function = self._target.split(":")
        return plain_command(self.name or "", getattr(import_module(module), function))

    def make_context(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - a context of typer
        """Return the context of the command itself, which then runs in the place of this one."""
        return self.loaded.make_context(*args, **options)

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401 - parameters of typer
        """Return the parameters of the command itself."""
        return self.loaded.get_params(ctx)


class LazyGroup(TyperGroup):
    """A group of lazy commands."""

    def add_lazily(self, commands: Mapping[str, tuple[str, str]]) -> None:
        """Add commands by name, each with its target and its summary; see `LazyCommand`."""
        for name, (target, summary) in commands.items():
            self.add_command(LazyCommand(name, target, summary))


def plain_command(name: str, function: Callable[..., None]) -> Any:  # noqa: ANN401 - a command of typer
    """Make a command of a function, with the function's docstring as its help."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(name, help=help_of(function), context_settings=CONTEXT)(function)
    return typer.main.get_command(app)


def help_of(function: Callable[..., None]) -> str:
    """Return a docstring as help: what stands under `Examples:` keeps its lines, so that it can be copied."""
    text = inspect.getdoc(function) or ""
    about, marker, examples = text.partition("\nExamples:\n")
    return f"{about}\n\b\nExamples:\n{examples}" if marker else about
