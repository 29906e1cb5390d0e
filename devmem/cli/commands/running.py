"""`devmem run`: run a workflow, once for each input."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from devmem.cli.commands.searching import show_hits
from devmem.cli.declaring import option
from devmem.cli.failures import EXIT_PARTLY, unknown
from devmem.cli.inputs import STDIN, UTF8_MARK, read_stdin
from devmem.cli.options import AllUsers, checked_name, report_left_out
from devmem.cli.targets import (
    AskedAtOption,
    JsonTerminal,
    Session,
    WorkflowFile,
    asked_at_of_option,
    check_session,
    load,
    load_with_progress,
)
from devmem.cli.terminal import Terminal, can_ask, outcome_text
from devmem.config.store import EmbeddingConfig
from devmem.config.workflow import Workflow
from devmem.errors import CommandError, DataFileError, DevmemError, NodeFailedError
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.items import Scope
from devmem.model.results import Hit
from devmem.models.chat import Usage
from devmem.server.requests import RankedMemory
from devmem.transfer.importing.files import FileReader
from devmem.workflow.graph import NodeResult, RunResult
from devmem.workflow.runner import ChatModels, WorkflowRunner, attached_stores, configured_chat_models
from devmem.workflow.stores import attached_file, open_stores, session_folder

Writes: TypeAlias = Counter[tuple[str, str, str]]
"""Numbers of writes by store, status and reason."""


class _Printer:
    """Prints runs as they end, and reports on stderr what was stored, skipped, left out or failed."""

    def __init__(self, terminal: Terminal, *, with_memory: bool, streams: bool, each: bool, keeps_writes: bool) -> None:
        """Choose what is printed.

        Args:
            terminal: where to print.
            with_memory: whether to show what each node recalled and wrote.
            streams: whether the answers are printed by `print_piece` as they arrive.
            each: whether each run has its own line about what was stored, instead of one for all of them.
            keeps_writes: whether the writes of a run that fails stay; those of a transaction do not.
        """
        self._terminal, self._with_memory, self._streams = terminal, with_memory, streams
        self._each, self._keeps_writes = each, keeps_writes
        self._node = ""
        """Node whose text is being printed."""
        self._writes: Writes = Counter()
        self._done = 0
        self.failed = 0
        """Number of runs in which a store could not do its part."""

    def print_piece(self, node: str, text: str) -> None:
        """Print a part of what a node's model says; each node begins on its own line."""
        if node != self._node:
            self._terminal.end_line()
            self._terminal.print(f"[{node}]", style="cyan")
            self._node = node
        if text:
            self._terminal.print_piece(text)

    def show(self, text: str, result: RunResult) -> None:
        """Print one run."""
        terminal, self._node = self._terminal, ""
        terminal.end_line()
        if terminal.as_json:
            terminal.json(_run_json(text, result))
        elif self._with_memory:
            _show_whole(terminal, text, result)
        elif not self._streams:
            terminal.print(result.output)
        writes = _writes_of(result.nodes)
        self._writes += writes
        self._done += 1
        if self._each and not terminal.as_json:
            self._report(result, writes)
        for store, count in result.hidden.items():
            report_left_out(terminal, count, store=store)
        for node in result.nodes:
            for call in node.tool_calls if self._each else ():
                told = f"{node.node!r} requested the tool {call.name!r}, but devmem calls no tools"
                terminal.report("warning", told)
            for failure in node.failures:
                terminal.report("error", str(failure))
        self.failed += any(node.failures for node in result.nodes)

    def _report(self, result: RunResult, writes: Writes) -> None:
        self._terminal.report("note", f"memory: {_writes_text(writes)}", repeat=True)
        if result.trace is not None:
            self._terminal.report("note", f"recorded as trace {result.trace}")
        if (usage := result.usage) != Usage():
            tokens = f"tokens: {usage.input_tokens:,} in, {usage.output_tokens:,} out"
            self._terminal.report("note", tokens, repeat=True)

    def show_failure(self, text: str, error: DevmemError) -> None:
        """Print what was done of a run that failed."""
        terminal = self._terminal
        terminal.end_line()
        if isinstance(error, NodeFailedError) and terminal.as_json:
            failed = _run_json(text, RunResult(nodes=error.nodes, output=""))
            terminal.json(failed | {"answer": None, "error": {"node": error.node, "message": str(error)}})
        elif isinstance(error, NodeFailedError) and (writes := _writes_of(error.nodes)):
            what = "kept" if self._keeps_writes else "dropped with the run"
            terminal.report("note", f"memory, {what}: {_writes_text(writes)}", repeat=True)
        if self._done:
            terminal.report("note", f"{self._done} input(s) were answered before the one that failed.")

    def finish(self) -> None:
        """Report what all runs stored, unless each of them did."""
        if self._done and not self._each and not self._terminal.as_json:
            self._terminal.report("note", f"memory: {_writes_text(self._writes)}")


def _writes_of(nodes: Sequence[NodeResult]) -> Writes:
    """Return the numbers of the nodes' writes; the reason is that of writes that were skipped or queued."""
    return Counter(
        (write.store, write.outcome.status.value, write.outcome.reason)
        for node in nodes
        for written in node.written.values()
        for write in written.writes
    )


def _writes_text(writes: Mapping[tuple[str, str, str], int]) -> str:
    """Return what became of writes in one line: `1 stored in notes; 1 skipped by board (nothing to store)`."""
    told = [
        f"{count:,} {status} {'by' if status == 'skipped' else 'in'} {store}" + (f" ({reason})" if reason else "")
        for (store, status, reason), count in writes.items()
    ]
    return "; ".join(told) or "nothing was written"


def _run_json(text: str, result: RunResult) -> dict[str, Any]:
    """Return one run for programs: its input, its answer, and of each node what it recalled and wrote."""
    nodes = [
        {
            "node": node.node,
            "answer": node.text,
            "recalled": [RankedMemory.of(hit, waiting=False, stages=stages) for hit, stages in _recalled(node)],
            "writes": [
                {
                    "store": write.store,
                    "stage": stage,
                    "status": write.outcome.status,
                    "id": write.outcome.item_id,
                    "reason": write.outcome.reason,
                    "waiting": write.outcome.waiting,
                }
                for stage, written in node.written.items()
                for write in written.writes
            ],
            "failures": [str(failure) for failure in node.failures],
            "tool_calls": node.tool_calls,
            "usage": node.usage,
        }
        for node in result.nodes
    ]
    about = {"warnings": result.warnings, "hidden": result.hidden, "trace": result.trace, "usage": result.usage}
    return {"input": text, "answer": result.output, "nodes": nodes, **about, "error": None}


def _recalled(node: NodeResult) -> list[tuple[Hit, list[str]]]:
    """Return the items that a node recalled, each once, with the names of the stages at which it was recalled."""
    found: dict[tuple[str, str], tuple[Hit, list[str]]] = {}
    for stage, result in node.recalled.items():
        for hit in result.hits:
            found.setdefault((hit.store, hit.item.id), (hit, []))[1].append(stage.value)
    return list(found.values())


def _show_whole(terminal: Terminal, text: str, result: RunResult) -> None:
    """Print the input, and of each node what it recalled, wrote and answered."""
    terminal.print(f"> {text}", style="bold")
    for node in result.nodes:
        if len(result.nodes) > 1:
            terminal.print(f"\n[{node.node}]", style="cyan")
        if hits := [hit for hit, _ in _recalled(node)]:
            show_hits(terminal, hits, explain=True, with_store=True)
        elif node.recalled:
            terminal.print("nothing was recalled", style="dim")
        for stage, written in node.written.items():
            for write in written.writes:
                terminal.print(f"{write.store}: {outcome_text(write.outcome)} at {stage.value}", style="dim")
        terminal.print(node.text)
    terminal.print()


_KEYS: Final = ("text", "question", "input", "content")
_FEW: Final = 3
"""Maximum number of inputs without a progress bar."""


def _find_inputs(terminal: Terminal, text: str | None, file: Path | None) -> tuple[Iterable[str], int | None]:
    """Return the texts from where the options say, and their number; None where it is not known before the end.

    Raises:
        CommandError: there is no input, or there are two.
        DataFileError: the file, or (while it is read) a line of it, cannot be used.
    """
    if text is not None and file is not None:
        raise CommandError("give either --input or --input-file, not both.")
    if text is not None:
        return [read_stdin() if text == STDIN else text], 1
    if file == Path(STDIN):
        return _from_stdin(), None
    if file is not None:
        texts = [_text(file, number, line) for number, line in FileReader(file).lines()]
        return texts, len(texts)
    if can_ask():
        return _asked_for(terminal), None
    raise CommandError("nothing to run: give --input TEXT, --input-file FILE, or --input-file - to read a pipe.")


def _from_stdin() -> Iterator[str]:
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        if line := raw.removeprefix(UTF8_MARK).decode("utf-8", "replace").strip():
            yield _text(Path(STDIN), number, line)


def _asked_for(terminal: Terminal) -> Iterator[str]:
    while True:
        try:
            line = terminal.err.input("> ").strip()
        except EOFError:
            terminal.err.print()
            return
        if line:
            yield line


def _text(file: Path, number: int, line: str) -> str:
    """Return a line, or the text of the JSON object on it."""
    if not line.startswith("{"):
        return line
    try:
        raw = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        if file.name.removesuffix(".gz").endswith(".jsonl"):
            raise DataFileError(file, "the line is not JSON", line=number) from error
        return line
    text = next((raw[key] for key in _KEYS if key in raw), None) if isinstance(raw, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        raise DataFileError(file, f"no text: expected one of the keys {', '.join(_KEYS)}", line=number)
    return text


_KEY: Final = "embedding"


class EmbeddingChoice(StrEnum):
    """Embeddings that need no key."""

    MINILM = "minilm"
    NONE = "none"


def _with_embedding(workflow: Workflow, choice: EmbeddingChoice | None) -> Workflow:
    """Return the workflow with another embedding model for the stores that have one.

    Placeholders in the `embedding:` blocks that are replaced need no value any more.
    """
    if choice is None:
        return workflow
    block = None if choice is EmbeddingChoice.NONE else EmbeddingConfig(provider="minilm")
    stores, blocks = list(workflow.memory), set[tuple[str | int, ...]]()
    for at, store in enumerate(stores):
        if getattr(store.config, _KEY, None) is not None:
            blocks.add((*store.place.location, "config", _KEY))
            stores[at] = store.model_copy(update={"config": store.config.model_copy(update={_KEY: block})})
    unresolved = [one for one in workflow.unresolved if not any(one.location[: len(each)] == each for each in blocks)]
    return workflow.model_copy(update={"memory": tuple(stores), "unresolved": tuple(unresolved)})


def run(
    terminal: JsonTerminal,
    file: WorkflowFile,
    text: Annotated[
        str | None, option("Input of the workflow; `-` reads standard input.", "--input", "-i", metavar="TEXT")
    ] = None,
    input_file: Annotated[
        Path | None,
        option('One input per line, plain or as `{"text": ...}`; `-` reads standard input.', metavar="FILE"),
    ] = None,
    node: Annotated[str | None, option("Run only this node.", metavar="ID")] = None,
    attach: Annotated[
        list[Path] | None, option("File sent with every input, such as an image; may be repeated.", metavar="FILE")
    ] = None,
    session: Session = DEFAULT_SESSION,
    chat: Annotated[
        str | None, option("Chat provider for every node; `extractive` needs no key.", metavar="PROVIDER")
    ] = None,
    embedding: Annotated[EmbeddingChoice | None, option("Embedding for every store; neither needs a key.")] = None,
    user: Annotated[
        str | None, option("User the run is for: their items and unscoped ones are recalled.", metavar="ID")
    ] = None,
    all_users: AllUsers = False,
    asked_at: AskedAtOption = None,
    show_memory: Annotated[bool, option("Show what was recalled and written.")] = False,
    stream: Annotated[bool, option("Print the models' output as it arrives.")] = False,
) -> None:
    """Run a workflow's agents with their memories.

    Each input is a run, which recalls what the one before it stored; without one, on a terminal, it prompts for lines.

    Examples:
        devmem run team.yaml --input "When is the launch?" --show-memory
        devmem run devall.yaml --chat extractive --embedding none --input "Hello."
    """
    if stream and (show_memory or terminal.as_json):
        raise CommandError("--stream cannot be combined with --json or --show-memory.")
    workflow = load(terminal, file)
    check_session(workflow, session)
    nodes = [each.id for each in workflow.nodes]
    if node is not None and node not in nodes:
        raise unknown("node", node, nodes, file=str(workflow.file))
    workflow = _with_embedding(workflow, embedding)
    for warning in workflow.warnings:
        terminal.report("warning", str(warning))
    if user is not None and checked_name("--user", user) and all_users:
        raise CommandError("give either --user or --all-users, not both.")
    try:
        files = [attached_file(path) for path in attach or ()]
    except OSError as error:
        raise CommandError(f"{error.filename}: cannot be attached: {error.strerror or error}") from error
    texts, total = _find_inputs(terminal, text, input_file)
    few = total is None or total <= _FEW
    printer = _Printer(
        terminal, with_memory=show_memory, streams=stream, each=few, keeps_writes=not workflow.transaction
    )
    models, when = configured_chat_models(workflow), asked_at_of_option(asked_at)
    with ExitStack() as stack:
        names, load_store = attached_stores(workflow, node), partial(load_with_progress, terminal)
        opened = stack.enter_context(open_stores(workflow, names, session=session, load=load_store))
        scope, folder = Scope(user=user, session=session), session_folder(workflow, session)
        runner = WorkflowRunner(
            workflow,
            opened,
            chat_models=models if chat is None else _with_provider(models, chat),
            scope=scope,
            all_users=all_users,
            rescue_dir=folder,
            on_text=printer.print_piece if stream else None,
        )
        stack.callback(runner.close)  # logs a write that failed until the end, with the file that holds it
        bar = stack.enter_context(terminal.progress("running", total, shown=not few))
        for given in texts:
            try:
                with terminal.waiting("waiting for the answer", shown=few and not stream):
                    result = runner.run(given, node=node, attachments=files, asked_at=when)
            except DevmemError as error:
                # What earlier inputs stored is kept.
                printer.show_failure(given, error)
                raise
            printer.show(given, result)
            bar.advance(bar.task_ids[0])
        printer.finish()
    if printer.failed:
        raise typer.Exit(EXIT_PARTLY)


def _with_provider(models: ChatModels, provider: str) -> ChatModels:
    """Return the choice of each node's chat model with another provider than the configured one."""
    return lambda node, config: models(node, config.model_copy(update={"provider": provider}))
