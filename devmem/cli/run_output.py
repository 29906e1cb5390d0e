"""A workflow's run on a terminal: the answer, and what each node recalled and wrote."""

from __future__ import annotations

from devmem.cli.describe import outcome_text
from devmem.cli.search_output import show_hits
from devmem.cli.terminal import Terminal
from devmem.runtime import NodeResult, RunResult
from devmem.views import recalled_hits


def show_result(terminal: Terminal, text: str, result: RunResult, *, with_memory: bool) -> None:
    """Print the answer; with memory, the input before it and what each node recalled and wrote."""
    if not with_memory:
        terminal.print(result.output)
        return
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
