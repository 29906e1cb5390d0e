"""What a run looks like to a person."""

from __future__ import annotations

from devmem.cli.describe import item_date, number, outcome_text, recalled_hits
from devmem.cli.terminal import Terminal
from devmem.model.results import Hit
from devmem.runtime import NodeResult, RunResult

_HIT_COLUMNS = ("store", "score", "similarity", "lexical", "date", "id", "text")
_NUMBERS = ("score", "similarity", "lexical", "recency", "rerank")


def show_result(terminal: Terminal, text: str, result: RunResult, *, with_memory: bool) -> None:
    """Print the answer; with memory, the question before it and what each node recalled and wrote."""
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
        terminal.table(_HIT_COLUMNS, [hit_row(hit, _HIT_COLUMNS) for hit in hits], numbers=_NUMBERS)
    elif node.recalled:
        terminal.print("nothing was recalled", style="dim")
    for stage, result in node.written.items():
        for write in result.writes:
            terminal.print(f"{write.store}: {outcome_text(write.outcome)} at {stage.value}", style="dim")


def hit_row(hit: Hit, columns: tuple[str, ...]) -> list[str]:
    """Give the cells of a hit."""
    cells = {
        "store": hit.store,
        "date": item_date(hit.item),
        "id": hit.item.id,
        "text": hit.item.content_summary,
        **{name: number(getattr(hit, name)) for name in _NUMBERS},
    }
    return [cells.get(column, "") for column in columns]
