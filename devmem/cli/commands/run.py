"""`devmem run`: run a workflow, once for each input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devmem.cli.failures import EXIT_PARTLY, CommandError, unknown
from devmem.cli.inputs import Inputs, find_inputs
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import Session, WorkflowFile, check_session, load
from devmem.config import Workflow
from devmem.errors import DevmemError
from devmem.runtime import DEFAULT_SESSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from devmem.messages import MessageBlock
    from devmem.runtime import ChatModels, RunResult, WorkflowRunner

_FEW = 3
"""Maximum number of inputs without a progress bar."""


def run(
    ctx: typer.Context,
    file: WorkflowFile,
    text: Annotated[
        str | None,
        typer.Option("--input", "-i", metavar="TEXT", help="Input of the workflow; `-` reads standard input."),
    ] = None,
    input_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='One input a line, plain or as `{"text": ...}`; `-` reads standard input.'),
    ] = None,
    node: Annotated[str | None, typer.Option(metavar="ID", help="Run this node alone.")] = None,
    attach: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="File that goes with every input, such as an image; repeatable."),
    ] = None,
    session: Session = DEFAULT_SESSION,
    chat: Annotated[
        str | None, typer.Option(metavar="PROVIDER", help="Chat provider for every node; `extractive` needs no key.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="User whose items are recalled, beside nobody's, and stored.")
    ] = None,
    all_users: Annotated[bool, typer.Option("--all-users", help="Recall every user's items.")] = False,
    show_memory: Annotated[bool, typer.Option("--show-memory", help="Show what was recalled and written.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each input.")] = False,
) -> None:
    """Run a workflow's agents with their memories.

    The workflow runs once for each input. The stores stay open in between, so that a run recalls what the one before
    it stored. Without an input, on a terminal, it asks for one line after another.

    Examples:
        devmem run configs/simple.yaml --input "When is the launch?" --show-memory
    """
    from contextlib import ExitStack

    terminal: Terminal = ctx.obj
    workflow = load(terminal, file)
    check_session(workflow, session)
    _check_node(workflow, node)
    inputs = find_inputs(terminal, text, input_file)
    attachments = [_attached(path) for path in attach or ()]
    with ExitStack() as stack:
        runner = _open(stack, workflow, node=node, session=session, user=user, all_users=all_users, chat=chat)
        show = _json_shower(terminal) if as_json else _shower(terminal, with_memory=show_memory)
        failed = _run_all(terminal, runner, inputs, node=node, show=show, attachments=attachments)
    if failed:
        raise typer.Exit(EXIT_PARTLY)


def _attached(path: Path) -> MessageBlock:
    from devmem.runtime.attachments import attached_file

    try:
        return attached_file(path)
    except OSError as error:
        raise CommandError(f"{path}: cannot be attached: {error.strerror or error}") from error


def _check_node(workflow: Workflow, node: str | None) -> None:
    nodes = [each.id for each in workflow.nodes]
    if node is not None and node not in nodes:
        raise unknown("node", node, nodes, file=str(workflow.file))


def _open(
    stack: ExitStack,
    workflow: Workflow,
    *,
    node: str | None,
    session: str,
    user: str | None,
    all_users: bool,
    chat: str | None,
) -> WorkflowRunner:
    """Open the stores that are needed, and the runner; closing the stack saves and closes them."""
    from devmem.model.items import Scope
    from devmem.runtime import WorkflowRunner, attached_stores, open_stores, session_folder

    if user is not None and not user.strip():
        raise CommandError("--user is empty; leave it out where there is no user")
    stores = stack.enter_context(open_stores(workflow, attached_stores(workflow, node), session=session))
    runner = WorkflowRunner(
        workflow,
        stores,
        chat_models=_chat_models(workflow, chat),
        scope=Scope(user=user, session=session),
        all_users=all_users,
        rescue_dir=session_folder(workflow, session),
    )
    # A write that failed until the end is logged, with the file that holds it.
    stack.callback(runner.close)
    return runner


def _chat_models(workflow: Workflow, provider: str | None) -> ChatModels:
    """Return the choice of each node's chat model; `provider` takes the place of the configured one."""
    from devmem.runtime import configured_chat_models

    configured = configured_chat_models(workflow)
    if provider is None:
        return configured
    return lambda node, config: configured(node, config.model_copy(update={"provider": provider}))


def _run_all(
    terminal: Terminal,
    runner: WorkflowRunner,
    inputs: Inputs,
    *,
    node: str | None,
    show: Callable[[str, RunResult], None],
    attachments: Sequence[MessageBlock],
) -> int:
    """Run every input, and return the number of runs in which a store could not do its part."""
    failed = done = 0
    many = inputs.total is None or inputs.total > _FEW
    with terminal.progress("running", inputs.total, shown=many and inputs.total is not None) as bar:
        for text in inputs.texts:
            try:
                result = runner.run(text, node=node, attachments=attachments)
            except DevmemError:
                if done:
                    terminal.report("note", f"{done} input(s) were answered before the one that failed.")
                raise
            show(text, result)
            for store, count in result.hidden.items():
                what = f"{count} item(s) of {store!r} belong to users and were not looked at"
                terminal.report("note", f"{what}; `--user ID` sees one user's, `--all-users` all.")
            failures = [failure for each in result.nodes for failure in each.failures]
            for failure in failures:
                terminal.report("error", str(failure))
            failed += bool(failures)
            done += 1
            bar.advance(bar.task_ids[0])
    return failed


def _shower(terminal: Terminal, *, with_memory: bool) -> Callable[[str, RunResult], None]:
    from devmem.cli.run_output import show_result

    return lambda text, result: show_result(terminal, text, result, with_memory=with_memory)


def _json_shower(terminal: Terminal) -> Callable[[str, RunResult], None]:
    from devmem.views import run_json

    return lambda text, result: terminal.json(run_json(text, result))
