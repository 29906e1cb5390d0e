"""A workflow's run on a terminal: the answer, and what each node recalled and wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from devmem.cli.describe import outcome_text
from devmem.cli.filter_options import report_left_out
from devmem.cli.search_output import show_hits
from devmem.cli.terminal import Terminal
from devmem.llm import Usage
from devmem.runtime import NodeResult, RunResult
from devmem.views import recalled_hits, run_json

Writes = Counter[tuple[str, str, str]]
"""Numbers of writes by store, status and reason."""


class RunPrinter:
    """Prints runs as they end, and reports on stderr what was stored, skipped, left out or failed."""

    def __init__(
        self, terminal: Terminal, *, with_memory: bool, as_json: bool, each: bool, streamed: StreamPrinter | None = None
    ) -> None:
        """Choose what is printed.

        Args:
            terminal: where to print.
            with_memory: whether to show what each node recalled and wrote.
            as_json: whether to print one JSON object for each run.
            each: whether each run has its own line about what was stored, instead of one for all of them.
            streamed: has printed the answers while they came; None where nothing has.
        """
        self._terminal = terminal
        self._with_memory = with_memory
        self._as_json = as_json
        self._each, self._streamed = each, streamed
        self._writes: Writes = Counter()
        self.done = 0
        """Runs that were printed."""
        self.failed = 0
        """Runs in which a store could not do its part."""

    def show(self, text: str, result: RunResult) -> None:
        """Print one run."""
        if self._as_json:
            self._terminal.json(run_json(text, result))
        elif self._streamed is not None:
            self._streamed.finish()
        elif self._with_memory:
            _show_whole(self._terminal, text, result)
        else:
            self._terminal.print(result.output)
        self._writes += writes_of(result)
        if self._each:
            self._report_writes()
            self._report_trace(result)
            self._report_usage(result)
        for store, count in result.hidden.items():
            report_left_out(self._terminal, count, store=store)
        failures = [failure for node in result.nodes for failure in node.failures]
        for failure in failures:
            self._terminal.report("error", str(failure))
        self.failed += bool(failures)
        self.done += 1

    def _report_trace(self, result: RunResult) -> None:
        if result.trace is not None and not self._as_json:
            self._terminal.report("note", f"recorded as trace {result.trace}")

    def _report_usage(self, result: RunResult) -> None:
        usage = result.usage
        if usage != Usage() and not self._as_json:
            text = f"tokens: {usage.input_tokens:,} in, {usage.output_tokens:,} out"
            self._terminal.report("note", text, repeat=True)
        for node in result.nodes:
            for call in node.tool_calls:
                self._terminal.report(
                    "warning", f"{node.node!r} wants to call the tool {call.name!r}: devmem calls none"
                )

    def finish(self) -> None:
        """Report what all runs stored, unless each of them did."""
        if self.done and not self._each:
            self._report_writes()

    def _report_writes(self) -> None:
        if not self._as_json:
            self._terminal.report("note", f"memory: {writes_text(self._writes)}", repeat=True)
        self._writes = Counter()


class StreamPrinter:
    """Prints what the models of a run say while it comes; each node begins on a line of its own."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal, self._node, self._ended = terminal, "", True

    def __call__(self, node: str, text: str) -> None:
        """Print a piece."""
        if node != self._node:
            self.finish()
            self._terminal.print(f"[{node}]", style="cyan")
            self._node = node
        if text:
            self._terminal.print_piece(text)
            self._ended = text.endswith("\n")

    def finish(self) -> None:
        """End the last line."""
        if not self._ended:
            self._terminal.print()
        self._node, self._ended = "", True


def writes_of(result: RunResult) -> Writes:
    """Return the numbers of a run's writes; the reason is that of writes that were skipped or queued."""
    return Counter(
        (write.store, write.outcome.status.value, write.outcome.reason)
        for node in result.nodes
        for written in node.written.values()
        for write in written.writes
    )


def writes_text(writes: Mapping[tuple[str, str, str], int]) -> str:
    """Return what became of writes in one line: `1 stored in notes; 1 skipped by board (nothing to store)`."""
    told = [
        f"{count:,} {status} {'by' if status == 'skipped' else 'in'} {store}" + (f" ({reason})" if reason else "")
        for (store, status, reason), count in writes.items()
    ]
    return "; ".join(told) or "nothing was written"


def _show_whole(terminal: Terminal, text: str, result: RunResult) -> None:
    """Print the input, and of each node what it recalled, wrote and answered."""
    terminal.print(f"> {text}", style="bold")
    for node in result.nodes:
        if len(result.nodes) > 1:
            terminal.print(f"\n[{node.node}]", style="cyan")
        _show_memory(terminal, node)
        terminal.print(node.text)
    terminal.print()


def _show_memory(terminal: Terminal, node: NodeResult) -> None:
    hits = [hit for hit, _ in recalled_hits(node)]
    if hits:
        show_hits(terminal, hits, explain=True, with_store=True)
    elif node.recalled:
        terminal.print("nothing was recalled", style="dim")
    for stage, result in node.written.items():
        for write in result.writes:
            terminal.print(f"{write.store}: {outcome_text(write.outcome)} at {stage.value}", style="dim")
