"""`devmem schema`: what editors complete and check workflows with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from devmem.cli.terminal import Terminal


def schema(
    ctx: typer.Context,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it here, not to stdout.")
    ] = None,
) -> None:
    """Print the JSON Schema of workflows, with every installed store type.

    A YAML file that starts with `# yaml-language-server: $schema=workflow.schema.json` is completed and checked by most
    editors.

    Example: `devmem schema --output configs/workflow.schema.json`
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
