"""Writes that no store has yet are forgotten while a recorder goes on refusing records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from devmem import record_tool
from devmem.recording import Interaction, InteractionRecorder
from devmem.recording.forwarder import REFUSED
from devmem.text.files import replace_file
from devmem.text.retry import Backoff
from devmem.workflow import waiting
from devmem.workflow.waiting import checksum_of, remove_waiting


class Choosy:
    """Refuses the records that say so."""

    def record(self, interactions: Sequence[Interaction]) -> None:
        if any(one.content == "refuse" for one in interactions):
            raise ValueError("not this one")


def test_a_record_that_is_refused_while_the_file_is_rewritten_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = tmp_path / REFUSED
    refused.write_text('"gone"\n"kept"\n', encoding="ascii")
    recorder = InteractionRecorder(Choosy(), tmp_path, backoff=Backoff(first=0.001, longest=0.001))

    def replaces(path: Path, chunks: Iterable[bytes]) -> None:
        with recorder.trace(conversation="c"), record_tool("t", "refuse") as call:
            call.output("taken")
        recorder.flush(0.1)
        replace_file(path, chunks)

    monkeypatch.setattr(waiting, "replace_file", replaces)
    assert remove_waiting(refused, {checksum_of('"gone"')}) == []
    assert recorder.flush(30)
    recorder.close()
    kept, late = refused.read_text(encoding="ascii").splitlines()
    assert kept == '"kept"'
    assert '"content": "refuse"' in late
