"""Write the workflow template of the installed store types.

python -m tools.export_design_template --output configs/design_template.yaml
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from devmem import load_workflow
from devmem.config import StoreTypes, design_template


def main(argv: Sequence[str] | None = None, *, store_types: StoreTypes | None = None) -> int:
    """Run the program; `store_types` stands in for the installed ones."""
    arguments = _arguments(argv)
    if store_types is None:
        # Only here, so that the rest works without any store installed.
        from devmem.plugins import registry

        store_types = registry
    if arguments.workflow is not None:
        load_workflow(arguments.workflow)
    outputs = [arguments.output, *arguments.mirror]
    template = design_template(store_types, arguments.version)
    try:
        for path in outputs:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(template, encoding="utf-8")
            print(f"wrote {path}")
    except OSError as error:
        print(f"cannot write {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.export_design_template", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="file for the template")
    parser.add_argument("--mirror", type=Path, nargs="*", default=[], help="more files for the same template")
    parser.add_argument("--workflow", type=Path, help="workflow whose plugins are covered too")
    parser.add_argument("--version", help="what the template's `version` says")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
