"""A progress bar, shown where a person watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from devmem.text.display import one_line


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="dim")


@contextmanager
def progress_bar(console: Console, description: str, total: int | None, *, shown: bool) -> Iterator[Progress]:
    """Show a bar with one task until the block ends; `total` is the number of steps, None when it is not known."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:
        bar.add_task(one_line(description), total=total)
        yield bar
