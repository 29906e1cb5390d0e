"""Contradictions in a store in a database: reported, superseded as versions, and never within one pending run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import devmem
from devmem.memory import Memory
from devmem.model.results import WriteStatus

pytestmark = pytest.mark.postgres

OLD, NEW = "Ann lives in Berlin.", "Ann lives in Hamburg."


def opened(folder: Path, url: str, on_conflict: str) -> Memory:
    config = f"{{memory_path: '{url}', on_conflict: {on_conflict}}}"
    (folder / "team.yaml").write_text(f"memory: [{{name: s, type: simple, config: {config}}}]\n", encoding="utf-8")
    return devmem.open(folder / "team.yaml#s")


def texts(memory: Memory) -> list[str]:
    return [record.text for record in reversed(memory.recent(100)) if record.quarantine_reason is None]


def test_it_supersedes_and_a_run_takes_it_back(tmp_path: Path, store_url: str) -> None:
    with opened(tmp_path, store_url, "supersede") as memory:
        old = memory.add(OLD)
        with memory.run("move") as pending:
            assert pending.add(NEW) == old
            (outcome,) = pending.add_outcomes("Ann lives in Munich.")
            # The run keeps its last version of an id alone.
            assert [each.item_id for each in outcome.related] == [old]
            assert outcome.item_id != old
            assert (texts(pending), texts(memory)) == ([NEW, "Ann lives in Munich."], [OLD])
        memory.revert("move")
        assert texts(memory) == [OLD]
        assert [version.record.text for version in memory.history(old)] == [OLD, NEW, OLD]


def test_of_one_call_nothing_is_lost(tmp_path: Path, store_url: str) -> None:
    with opened(tmp_path, store_url, "supersede") as memory:
        one, other = memory.add_outcomes([OLD, NEW])
        assert [each.item_id for each in other.related] == [one.item_id]
        assert texts(memory) == [OLD, NEW]


def test_it_asks(tmp_path: Path, store_url: str) -> None:
    with opened(tmp_path, store_url, "ask") as memory:
        old = memory.add(OLD)
        (outcome,) = memory.add_outcomes(NEW)
        assert (outcome.status, texts(memory)) == (WriteStatus.QUARANTINED, [OLD])
        assert memory.approve(outcome.item_id or "").id == old
        assert texts(memory) == [NEW]


def test_threads_leave_one_statement_and_a_version_for_each(tmp_path: Path, store_url: str) -> None:
    places = [f"Ann lives in {place}." for place in ("Berlin", "Hamburg", "Munich", "Bremen")]
    with opened(tmp_path, store_url, "supersede") as memory:
        with ThreadPoolExecutor(4) as pool:
            (left,) = set(pool.map(memory.add, places))
        assert sorted(version.record.text for version in memory.history(left)) == sorted(places)
