"""The `devmem` command: its subcommands, its global options, and the handling of their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from devmem.cli.failures import EXIT_INTERRUPTED, guarded
from devmem.cli.lazy import CONTEXT, LazyGroup

if TYPE_CHECKING:
    from devmem.cli.terminal import Terminal

_COMMANDS: Final = {
    "init": "Write a workflow to start with.",
    "run": "Run a workflow's agents with their memories.",
    "validate": "Check workflows and list every problem.",
    "check": "Check workflows in continuous integration.",
    "stores": "List the store types, or a workflow's stores.",
    "search": "Search a memory.",
    "add": "Remember a text.",
    "show": "Show the newest items, or whole items by id.",
    "edit": "Change an item and keep its id.",
    "forget": "Forget items for good, and print a receipt.",
    "trim": "Delete the oldest items.",
    "drop": "Drop a store of a database as a whole.",
    "compress": "Summarize what is older.",
    "history": "Show the versions of an item.",
    "diff": "Show what changed between two times, or in a run.",
    "runs": "List the runs of a memory, and end those that are pending.",
    "revert": "Undo a committed run.",
    "flow": "Draw who sent what to whom.",
    "trace": "Show the calls of a trace as a tree.",
    "log": "Show a conversation as a timeline.",
    "context": "Print what an agent may know of a conversation, for a prompt.",
    "rebuild-view": "Restore agents' stores from the global memory.",
    "import": "Fill a store from data files.",
    "export": "Write a store's items as JSON or Markdown.",
    "copy": "Copy every item of one store into another.",
    "index": "Bring a store of files up to date.",
    "backup": "Copy the file of a store while it is in use.",
    "restore": "Put a backup in place.",
    "doctor": "Examine what stores keep on disk.",
    "reindex": "Embed every item again with another model, or search items by other fields.",
    "mcp": "Serve a memory to MCP clients.",
    "schema": "Print the JSON Schema of workflows.",
}
"""Subcommands and their summaries, in the order in which they are listed."""
_MODULES: Final = {"import": "import_data", "rebuild-view": "rebuild_view"}
"""Module and function of a command that cannot have its name."""


def _target(name: str) -> str:
    module = _MODULES.get(name, name)
    return f"devmem.cli.commands.{module}:{module}"


class _Commands(LazyGroup):
    """Runs a command so that whatever goes wrong ends in one clear paragraph and an exit code.

    Each installed store type has a command of its own as well: `devmem TYPE migrate`.
    """

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - see `invoke`
        super().__init__(**attributes)
        self.add_lazily({name: (_target(name), summary) for name, summary in _COMMANDS.items()})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - see `invoke`
        return super().get_command(ctx, cmd_name) or _commands_of_type(cmd_name)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer keeps the class of its contexts to itself
        with guarded(lambda: _terminal(ctx)):
            return super().invoke(ctx)


def _terminal(ctx: Any) -> Terminal:  # noqa: ANN401 - see `_Commands.invoke`
    """Return the terminal of a command, or a new one where the command did not get as far as having it."""
    from devmem.cli.terminal import Terminal

    return ctx.obj if isinstance(ctx.obj, Terminal) else Terminal()


def _commands_of_type(name: str) -> Any:  # noqa: ANN401 - a group of typer
    """Return the commands of a store type; None when no such type is installed."""
    from devmem.registry import registry

    if name not in registry.names():
        return None
    from devmem.cli.commands.copy import commands_of

    return typer.main.get_command(commands_of(name))


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
    rich_markup_mode=None,
    help="Memory for multi-agent workflows: run them, look into what they remember, and change it.",
    epilog=(
        f"Exit codes: 0 done, 1 done but a store could not do its part, 2 nothing could be done, "
        f"{EXIT_INTERRUPTED} interrupted. `devmem COMMAND --help` shows a command's options with an example."
    ),
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from devmem.distribution import installed_version

        typer.echo(f"devmem {installed_version()}")
        raise typer.Exit


@app.callback()
def _start(
    ctx: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show what devmem logs, not only warnings.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    from devmem.cli.logs import show_logs
    from devmem.cli.terminal import Terminal
    from devmem.model.acting import acting_as

    terminal = Terminal(debug=debug)
    ctx.obj = terminal
    ctx.call_on_close(show_logs(terminal, verbose=verbose))
    ctx.with_resource(acting_as(f"devmem {ctx.invoked_subcommand}"))
