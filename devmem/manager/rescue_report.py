"""Examining the files of writes that stores could not take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from devmem.collections.wrappers import examine_outbox
from devmem.manager.rescue import load_payload
from devmem.model.file_report import FileReport, damage, unfinished

_FILES: Final = "unsaved-*"


def examine_rescued(folder: Path) -> Iterator[FileReport]:
    """Yield a report of each file of unsaved writes in a folder, oldest first."""
    files = folder.glob(_FILES) if folder.is_dir() else ()
    for file in sorted(files, key=lambda each: each.stat().st_mtime):
        if file.suffix == ".jsonl":
            yield examine_rescue_file(file)
        elif file.suffix == ".db":
            yield examine_outbox(file, _load)


def examine_rescue_file(file: Path) -> FileReport:
    """Examine an exported file of unsaved writes."""
    findings, good = [], 0
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        return FileReport(path=str(file), kind="rescued writes", findings=[damage(f"it cannot be read: {error}")])
    for number, line in enumerate(lines, start=1):
        try:
            _load(line.decode())
        except ValueError as error:
            findings.append(damage(f"line {number} cannot be read: {str(error).splitlines()[0]}"))
        else:
            good += 1
    if good:
        findings.append(
            unfinished(f"{good:,} writes are in no store; `devmem import` reads them, then delete the file")
        )
    facts = {"waiting": good, "oldest_time": file.stat().st_mtime}
    return FileReport(path=str(file), kind="rescued writes", facts=facts, findings=findings)


def _load(line: str) -> object:
    """Return the payload of a line; raises `ValueError` for anything else."""
    raw = json.loads(line)
    if not isinstance(raw, dict) or "payload" not in raw:
        raise ValueError("it is no unsaved write")
    return load_payload(raw["payload"])
