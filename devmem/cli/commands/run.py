"""`devmem run`: run a workflow, once for each input."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from devmem.cli.conditions import checked_name
from devmem.cli.failures import EXIT_PARTLY, CommandError, unknown
from devmem.cli.filter_options import AllUsers
from devmem.cli.indexing import load_with_progress
from devmem.cli.inputs import Inputs, find_inputs
from devmem.cli.overrides import EmbeddingChoice, chat_models, with_embedding
from devmem.cli.run_output import RunPrinter, StreamPrinter
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, WorkflowFile, check_session, load
from devmem.config import Workflow
from devmem.errors import DevmemError
from devmem.messages import MessageBlock
from devmem.model.items import Scope
from devmem.runtime import DEFAULT_SESSION, WorkflowRunner, attached_stores, open_stores, session_folder
from devmem.runtime.attachments import attached_file

_Input: TypeAlias = Annotated[
    str | None, typer.Option("--input", "-i", metavar="TEXT", help="Input of the workflow; `-` reads standard input.")
]
_InputFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help='One input a line, plain or as `{"text": ...}`; `-` reads standard input.'),
]
_Attach: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="File that goes with every input, such as an image; may be repeated."),
]
_Chat: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PROVIDER", help="Chat provider for every node; `extractive` needs no key.")
]
_Embedding: TypeAlias = Annotated[
    EmbeddingChoice | None, typer.Option("--embedding", help="Embedding for every store; neither needs a key.")
]
_Node: TypeAlias = Annotated[str | None, typer.Option(metavar="ID", help="Run this node alone.")]
_ShowMemory: TypeAlias = Annotated[bool, typer.Option("--show-memory", help="Show what was recalled and written.")]
_Stream: TypeAlias = Annotated[bool, typer.Option("--stream", help="Print what the models say while it comes.")]
_User: TypeAlias = Annotated[
    str | None, typer.Option(metavar="ID", help="User whose items are recalled, beside nobody's, and stored.")
]


def run(
    ctx: typer.Context,
    file: WorkflowFile,
    text: _Input = None,
    input_file: _InputFile = None,
    node: _Node = None,
    attach: _Attach = None,
    session: Session = DEFAULT_SESSION,
    chat: _Chat = None,
    embedding: _Embedding = None,
    user: _User = None,
    all_users: AllUsers = False,
    show_memory: _ShowMemory = False,
    stream: _Stream = False,
    as_json: AsJson = False,
) -> None:
    """Run a workflow's agents with their memories.

    The workflow runs once for each input; a run recalls what the one before it stored. Without an input, on a
    terminal, it asks for one line after another. `--json` prints an object a run.

    Examples:
        devmem run team.yaml --input "When is the launch?" --show-memory
        devmem run devall.yaml --chat extractive --embedding none --input "Hello."
    """
    terminal: Terminal = ctx.obj
    workflow = _checked(load(terminal, file), node=node, session=session, embedding=embedding)
    _check_user(user, all_users=all_users)
    inputs = find_inputs(terminal, text, input_file)
    streamed = _streamed(terminal, stream=stream, others=show_memory or as_json)
    printer = RunPrinter(terminal, with_memory=show_memory, as_json=as_json, each=inputs.few, streamed=streamed)
    with ExitStack() as stack:
        names, load_store = attached_stores(workflow, node), partial(load_with_progress, terminal)
        stores = open_stores(workflow, names, session=session, load=load_store)
        opened, scope = stack.enter_context(stores), Scope(user=user, session=session)
        folder, models = session_folder(workflow, session), chat_models(workflow, chat)
        runner = WorkflowRunner(
            workflow, opened, chat_models=models, scope=scope, all_users=all_users, rescue_dir=folder, on_text=streamed
        )
        stack.callback(runner.close)  # logs a write that failed until the end, with the file that holds it
        _run_all(terminal, runner, inputs, node=node, attachments=_attached(attach or ()), printer=printer)
    if printer.failed:
        raise typer.Exit(EXIT_PARTLY)


def _checked(workflow: Workflow, *, node: str | None, session: str, embedding: EmbeddingChoice | None) -> Workflow:
    """Return the workflow as it is to be run.

    Raises:
        CommandError: it lacks the node, or the session's name cannot be used.
    """
    check_session(workflow, session)
    nodes = [each.id for each in workflow.nodes]
    if node is not None and node not in nodes:
        raise unknown("node", node, nodes, file=str(workflow.file))
    return workflow if embedding is None else with_embedding(workflow, embedding)


def _streamed(terminal: Terminal, *, stream: bool, others: bool) -> StreamPrinter | None:
    if stream and others:
        raise CommandError("--stream prints answers while they come; it goes with neither --json nor --show-memory.")
    return StreamPrinter(terminal) if stream else None


def _check_user(user: str | None, *, all_users: bool) -> None:
    if user is not None:
        checked_name("--user", user)
        if all_users:
            raise CommandError("give either --user or --all-users, not both.")


def _attached(paths: Sequence[Path]) -> list[MessageBlock]:
    try:
        return [attached_file(path) for path in paths]
    except OSError as error:
        raise CommandError(f"{error.filename}: cannot be attached: {error.strerror or error}") from error


def _run_all(
    terminal: Terminal,
    runner: WorkflowRunner,
    inputs: Inputs,
    *,
    node: str | None,
    attachments: Sequence[MessageBlock],
    printer: RunPrinter,
) -> None:
    """Run every input; what earlier inputs stored is kept when one fails."""
    with terminal.progress("running", inputs.total, shown=not inputs.few) as bar:
        for text in inputs.texts:
            try:
                result = runner.run(text, node=node, attachments=attachments)
            except DevmemError:
                if printer.done:
                    terminal.report("note", f"{printer.done} input(s) were answered before the one that failed.")
                raise
            printer.show(text, result)
            bar.advance(bar.task_ids[0])
    printer.finish()
