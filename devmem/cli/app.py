"""The `devmem` command: its subcommands, its global options, and the handling of their errors."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from devmem.cli.failures import EXIT_INTERRUPTED, EXIT_READER_LEFT, guarded
from devmem.text.display import one_line

if TYPE_CHECKING:
    from devmem.cli.terminal import Terminal


# typer uses click, or from 0.26 on its own copy, and keeps the types of both to itself: hence `Any` below.


KEY_VARIABLE: Final = "DEVMEM_KEY"
"""Variable of the environment with the key of the memories that a command names by their files."""
CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""How every command shows its help."""


class LazyCommand(TyperCommand):
    """A command whose module is imported when it is about to run."""

    def __init__(self, name: str, module: str, summary: str) -> None:
        """Name a command.

        Args:
            name: what a user types.
            module: the module of its function.
            summary: its line in the list of commands.
        """
        super().__init__(name, short_help=summary, help=summary)
        self._module = module

    @cached_property
    def loaded(self) -> Any:  # noqa: ANN401 - a command of typer
        """The command itself, with the docstring of its function as its help."""
        from devmem.cli.declaring import as_typer

        name = self.name or ""
        function = getattr(
            import_module(f"devmem.cli.commands.{self._module}"),
            {"import": "import_data", "list": "list_items"}.get(name, name),
        )
        # The lines below `Examples:` stay as they are, so that they can be copied.
        about, marker, examples = (inspect.getdoc(function) or "").partition("\nExamples:\n")
        text = f"{about}\n\b\nExamples:\n{examples}" if marker else about
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        app.command(name, help=text, context_settings=CONTEXT)(as_typer(function))
        return typer.main.get_command(app)

    def make_context(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - a context of typer
        """Return the context of the command itself, which then runs in the place of this one."""
        return self.loaded.make_context(*args, **options)

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401 - parameters of typer
        """Return the parameters of the command itself."""
        return self.loaded.get_params(ctx)


_COMMANDS: Final = {
    "Remember and find": {
        "add": ("items", "Remember a text."),
        "get": ("items", "Show whole items."),
        "list": ("items", "List items, the newest first."),
        "search": ("searching", "Search a memory."),
        "context": ("searching", "Print what an agent may know of a conversation, for a prompt."),
        "update": ("items", "Change an item and keep its id, or change every item that matches."),
        "forget": ("forgetting", "Forget items permanently, and print a receipt."),
        "history": ("runs", "Show the versions of an item, or what changed between two times or in a run."),
        "count": ("items", "Count items, or those with each value of a key."),
        "log": ("records", "List conversations and traces, show or draw one, or show what agents were shown."),
        "import": ("transfer", "Fill a store from data files."),
        "export": ("transfer", "Write a store's items as JSON or Markdown."),
        "copy": ("transfer", "Copy every item of one store into another."),
    },
    "Workflows": {
        "init": (
            "starting",
            "Write a workflow to start with, the entries of a coding agent, or the package of a plugin.",
        ),
        "run": ("running", "Run a workflow's agents with their memories."),
        "validate": ("checking", "List every problem of workflows, or show what a run will do."),
        "stores": ("stores", "List the store types, or show what is in a memory's stores, and where."),
        "runs": ("runs", "List the runs of a memory, end those that are pending, or undo one."),
    },
    "Care": {
        "doctor": ("maintenance", "Examine what stores keep on disk, and mend it."),
        "backup": ("maintenance", "Copy the file of a store while it is in use, or restore a copy."),
        "rekey": ("rekeying", "Encrypt a memory, change its key, or decrypt it."),
        "reindex": ("indexing", "Bring files, embeddings and searched fields up to date."),
        "consolidate": ("consolidate", "Merge, archive or summarize items, or extract facts."),
    },
    "Servers": {
        "web": ("web", "Open a page that shows what is remembered, and why."),
        "mcp": ("mcp", "Serve a memory to MCP clients, or answer a hook of a coding agent."),
    },
}
"""Subcommands by the titles below which they are listed, each with its module and its summary."""
_OTHER_WORDS: Final = {
    **dict.fromkeys(("ls", "show", "stale", "quarantine", "tombstones"), "list"),
    **dict.fromkeys(("edit", "set"), "update"),
    **dict.fromkeys(("diff", "versions"), "history"),
    **dict.fromkeys(("delete", "remove", "rm", "erase", "clear"), "forget"),
    "stats": "stores",
    "index": "reindex",
    "facts": "consolidate",
    "hook": "mcp",
    "token": "mcp --add-token",
    "shown": "log --shown",
    "restore": "backup --restore",
    "new": "init --plugin",
    **dict.fromkeys(("check", "plan", "schema"), "validate"),
    **dict.fromkeys(("find", "query", "recall", "retrieve"), "search"),
}
"""Words for what another subcommand does."""


class _Commands(TyperGroup):
    """Runs a command so that whatever goes wrong ends in one clear paragraph and an exit code."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - see `invoke`
        super().__init__(**attributes)
        for name, (module, summary) in (pair for group in _COMMANDS.values() for pair in group.items()):
            self.add_command(LazyCommand(name, module, summary))

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - see `invoke`
        """List the commands below the titles of their groups."""
        width = max(len(name) for group in _COMMANDS.values() for name in group)
        for title, group in _COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), summary) for name, (_, summary) in group.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - see `invoke`
        """Return the command that the arguments name; for a word for it say what it is called here."""
        if (known := _OTHER_WORDS.get(args[0])) is not None and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"No such command {args[0]!r}; it is `devmem {known}`.")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer keeps the class of its contexts to itself
        with guarded(lambda: _terminal(ctx)):
            return super().invoke(ctx)


def _terminal(ctx: Any) -> Terminal:  # noqa: ANN401 - see `_Commands.invoke`
    """Return the terminal of a command, or a new one where the command did not get as far as having it."""
    from devmem.cli.terminal import Terminal

    return ctx.obj if isinstance(ctx.obj, Terminal) else Terminal()


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
    rich_markup_mode=None,
    help="Memory for multi-agent workflows: run them, look into what they remember, and change it.",
    epilog=(
        f"Exit codes: 0 done, 1 done but a store could not do its part, 2 nothing could be done, "
        f"{EXIT_INTERRUPTED} interrupted, {EXIT_READER_LEFT} the reader of the output left. "
        "`devmem COMMAND --help` shows a command's options with an example."
    ),
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from devmem.errors import installed_version

        typer.echo(f"devmem {installed_version()}")
        raise typer.Exit


@app.callback()
def _start(
    ctx: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show what devmem logs, not only warnings.")] = False,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file", metavar="FILE", help="Key of encrypted memories that are named by their files; or DEVMEM_KEY."
        ),
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    from devmem.cli.terminal import Terminal
    from devmem.model.caller import acting_as

    terminal = Terminal(debug=debug, has_key=key_file is not None)
    ctx.obj = terminal
    ctx.call_on_close(show_logs(terminal, verbose=verbose))
    if key_file is not None or os.environ.get(KEY_VARIABLE):
        from devmem.encryption.keys import read_key_file, read_key_variable, set_default_key

        set_default_key(read_key_variable(KEY_VARIABLE) if key_file is None else read_key_file(key_file))
        ctx.call_on_close(partial(set_default_key, None))
    ctx.with_resource(acting_as(f"devmem {ctx.invoked_subcommand}"))


class _Lines(logging.Handler):
    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        text = one_line(record.getMessage())
        if record.levelno < logging.WARNING:
            level, text = "note", f"{record.name}: {text}"
        self._terminal.report(level, text)


def show_logs(terminal: Terminal, *, verbose: bool) -> Callable[[], None]:
    """Print devmem's warnings (verbose: all messages) on stderr; return the function that stops it."""
    logger = logging.getLogger("devmem")
    before = (logger.level, logger.propagate)
    handler = _Lines(terminal)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
    logger.propagate = False

    def undo() -> None:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before

    return undo
