"""The command line: its global options, its commands, and what becomes of their errors."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from devmem.cli import copy, export, flow, import_data, index, reindex, run, schema, search, show, stores, validate
from devmem.cli.failures import EXIT_INTERRUPTED, guarded
from devmem.cli.logs import show_logs
from devmem.cli.terminal import Terminal
from devmem.distribution import installed_version


class _Commands(TyperGroup):
    """Runs a command so that whatever goes wrong ends in one clear paragraph and an exit code.

    Beside the commands below, each installed store type has its own: `devmem TYPE migrate`.
    """

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - see `invoke`
        known = super().get_command(ctx, cmd_name)
        if known is not None:
            return known
        from devmem.registry import registry

        return typer.main.get_command(copy.commands_of(cmd_name)) if cmd_name in registry.names() else None

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer keeps the class of its contexts to itself
        with guarded(lambda: ctx.obj if isinstance(ctx.obj, Terminal) else Terminal()):
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    rich_markup_mode="markdown",
    help="Declared memory for multi-agent workflows: run them, look into their stores, and fill these.",
    epilog=(
        f"Exit codes: 0 done, 1 done but a store could not do its part, 2 nothing could be done, "
        f"{EXIT_INTERRUPTED} interrupted."
    ),
)


def _show_version(wanted: bool) -> None:
    if wanted:
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
    terminal = Terminal(debug=debug)
    ctx.obj = terminal
    ctx.call_on_close(show_logs(terminal, verbose=verbose))


app.command("run")(run.run)
app.command("validate")(validate.validate)
app.command("stores")(stores.stores)
app.command("search")(search.search)
app.command("show")(show.show)
app.command("flow")(flow.flow)
app.command("import")(import_data.import_data)
app.command("export")(export.export)
app.command("copy")(copy.copy)
app.command("index")(index.index)
app.command("reindex")(reindex.reindex)
app.command("schema")(schema.schema)
