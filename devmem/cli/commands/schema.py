"""`devmem schema`: the JSON Schema of workflows, for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from devmem.cli.terminal import Terminal


def schema(
    ctx: typer.Context,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write; without it, stdout.")
    ] = None,
) -> None:
    """Print the JSON Schema of workflows.

    It covers every installed store type. Most editors complete and check a YAML file that starts with
    `# yaml-language-server: $schema=workflow.schema.json`.

    Examples:
        devmem schema --output configs/workflow.schema.json
    """
    from devmem.config import workflow_schema
    from devmem.registry import registry

    terminal: Terminal = ctx.obj
    text = json.dumps(workflow_schema(registry), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        terminal.out.file.write(text)
        return
    output.write_text(text, encoding="utf-8")
    terminal.report("note", f"written to {output}")
