"""Small data sets in each form, made up."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any


def _read(name: str) -> list[dict[str, Any]]:
    text = (Path(__file__).parents[1] / f"data/benchmarks/{name}.json").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)
    return found


LOCOMO = _read("locomo")
LONGMEMEVAL = _read("longmemeval")
UNITS = _read("units")
MEMORIES = _read("memories")
DIALOGUES = _read("dialogues")


def write(path: Path, document: object) -> Path:
    """Write a document, gzipped where the name says so."""
    text = json.dumps(document, ensure_ascii=False).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def write_lines(path: Path, objects: list[dict[str, Any]]) -> Path:
    """Write an object a line."""
    path.write_text("\n".join(json.dumps(one, ensure_ascii=False) for one in objects) + "\n", encoding="utf-8")
    return path
