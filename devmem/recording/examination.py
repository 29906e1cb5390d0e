"""Examining the journals of a store: records that wait, damaged lines, and records that the store refused."""

from __future__ import annotations

from pathlib import Path

from devmem.findings import Finding
from devmem.model.file_report import FileReport, damage, unfinished
from devmem.recording.journal_files import read_position
from devmem.recording.lines import decode_line
from devmem.recording.waiting import REFUSED, JournalState, waiting_records


def examine_journals(folder: Path) -> FileReport:
    """Examine the journals in a folder; nothing is sent or deleted."""
    try:
        found = waiting_records(folder)
        pending, findings = 0, list[Finding]()
        for journal in found.journals:
            records, damaged = _lines(journal)
            pending += records
            if damaged:
                findings.append(damage(f"{damaged:,} damaged lines in {journal.path.name}"))
    except OSError as error:
        problem = damage(f"it cannot be read: {error.strerror or error}")
        return FileReport(path=str(folder), kind="journals", findings=[problem])
    if found.refused:
        findings.append(damage(f"{found.refused:,} records were refused by the store; {REFUSED} has them"))
    if pending:
        findings.append(unfinished(f"{pending:,} records wait for the store; the next recorder sends them"))
    facts = {"journals": len(found.journals), "waiting": pending, "refused": found.refused}
    return FileReport(path=str(folder), kind="journals", facts=facts, findings=findings)


def _lines(journal: JournalState) -> tuple[int, int]:
    """Return the numbers of records that wait and of damaged lines among them."""
    with journal.path.open("rb") as file:
        file.seek(read_position(journal.path))
        # A last line without a line feed was acknowledged to nobody.
        whole = [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
    damaged = sum(1 for line in whole if decode_line(line[:-1]) is None)
    return len(whole) - damaged, damaged
