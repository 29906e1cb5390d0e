"""Write the workflow template, and the JSON Schema for editors, of the installed store types.

python -m tools.export_design_template --output configs/design_template.yaml --schema configs/workflow.schema.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from devmem.config import StoreTypes, design_template, workflow_schema


def schema_text(store_types: StoreTypes) -> str:
    """Return the JSON Schema as the text of a file."""
    return json.dumps(workflow_schema(store_types), indent=2, ensure_ascii=False) + "\n"


def export(
    store_types: StoreTypes, outputs: Sequence[Path], *, version: str | None = None, schema: Path | None = None
) -> list[Path]:
    """Write the template to every path in `outputs`, and the schema to its own; return what was written."""
    texts = dict.fromkeys(outputs, design_template(store_types, version))
    if schema is not None:
        texts[schema] = schema_text(store_types)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


def main(argv: Sequence[str] | None = None, *, store_types: StoreTypes | None = None) -> int:
    """Run the program; `store_types` stands in for the installed ones."""
    arguments = _arguments(argv)
    if store_types is None:
        # Only here, so that the rest works without any store installed.
        from devmem.registry import registry

        store_types = registry
    outputs = [arguments.output, *arguments.mirror]
    try:
        written = export(store_types, outputs, version=arguments.version, schema=arguments.schema)
    except OSError as error:
        print(f"cannot write {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    for path in written:
        print(f"wrote {path}")
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.export_design_template", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="file for the template")
    parser.add_argument("--mirror", type=Path, nargs="*", default=[], help="more files for the same template")
    parser.add_argument("--version", help="what the template's `version` says")
    parser.add_argument("--schema", type=Path, help="file for the JSON Schema of workflows")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
