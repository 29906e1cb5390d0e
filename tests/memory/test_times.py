"""Times of what is added, in any form, and of a question, whose `yesterday` is the asker's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import devmem

NOON = datetime(2026, 11, 5, 12, tzinfo=UTC)
Content = Callable[[dict[str, Any]], dict[str, Any]]


def text(time: dict[str, Any]) -> dict[str, Any]:
    return {"text": "I live in Basel.", **time}


def message(time: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": "I live in Basel.", **time}


def parts(time: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": "I live in Basel."}], "id": "m-1", **time}


@pytest.mark.parametrize("key", ["time", "created_at", "timestamp", "date"])
@pytest.mark.parametrize("made", [text, message, parts])
@pytest.mark.parametrize(
    "when",
    [
        NOON,
        int(NOON.timestamp()) * 1000,
        "2026-11-05T12:00:00Z",
        NOON.astimezone().replace(tzinfo=None),
        "Thu, 5 Nov 2026 12:00:00 +0000",
    ],
)
def test_a_time_is_read_under_each_key_in_each_form(memory: devmem.Memory, made: Content, key: str, when: Any) -> None:
    memory.add(made({key: when}))
    (record,) = memory.list()
    assert record.time == NOON
    assert record.caller_metadata == {}


@pytest.mark.parametrize("made", [text, message])
@pytest.mark.parametrize("when", ["soon", "2026-13-05", "03/04/2026", True, [2026], float("nan"), 1e18])
def test_what_cannot_be_read_is_refused_and_nothing_is_stored(memory: devmem.Memory, made: Content, when: Any) -> None:
    with pytest.raises(ValueError, match=r"time|day"):
        memory.add([message({}), made({"created_at": when})])
    assert len(memory) == 0


def test_of_two_times_none_is_lost(memory: devmem.Memory) -> None:
    memory.add(message({"time": NOON, "date": "2020-01-01"}))
    (record,) = memory.list()
    assert (record.time, record.caller_metadata) == (NOON, {"date": "2020-01-01"})
    with pytest.raises(ValueError, match="`time` and `date` both"):
        memory.add(text({"time": NOON, "date": "2020-01-01"}))


SHANGHAI = timezone(timedelta(hours=8))
ASKED = datetime(2026, 11, 27, 7, tzinfo=SHANGHAI)  # still the 26th in UTC
QUESTION = "What was breakfast yesterday?"


@pytest.fixture(params=["UTC", "Asia/Shanghai", "America/Los_Angeles"])
def _machine(request: pytest.FixtureRequest, local_zone: Callable[[str], None]) -> None:
    local_zone(request.param)


@pytest.fixture
def breakfasts(memory: devmem.Memory) -> devmem.Memory:
    memory.add("Breakfast was noodles.", time=datetime(2026, 11, 26, 8, tzinfo=SHANGHAI))
    memory.add("Breakfast was congee.", time=datetime(2026, 11, 25, 8, tzinfo=SHANGHAI))
    return memory


@pytest.mark.usefixtures("_machine")
def test_yesterday_is_the_askers(breakfasts: devmem.Memory) -> None:
    for asked in (ASKED, ASKED.isoformat(), "2026-11-27 07:00+08:00"):
        assert breakfasts.search(QUESTION, asked_at=asked)[0].text == "Breakfast was noodles."
        assert "noodles" in breakfasts.context(QUESTION, limit=1, asked_at=asked)
    assert breakfasts.search(QUESTION, asked_at=ASKED.astimezone(UTC))[0].text == "Breakfast was congee."
    with breakfasts.as_of("now") as earlier:
        assert "noodles" in earlier.context(QUESTION, limit=1, asked_at=ASKED)


def kitchen(folder: Path, retrieval: str) -> devmem.Workflow:
    """Return a workflow whose store has the two breakfasts."""
    (folder / "team.yaml").write_text(
        f"memory: [{{name: notes, type: simple, config: {{memory_path: notes.db, retrieval: {retrieval}}}}}]\n"
        "nodes:\n"
        "  - {id: cook, type: agent, config: {provider: extractive, name: none, memories: [{name: notes, top_k: 1}]}}\n"
    )
    workflow = devmem.load_workflow(folder / "team.yaml")
    with devmem.open(folder / "team.yaml#notes") as memory:
        memory.add("Breakfast was noodles.", time=datetime(2026, 11, 26, 8, tzinfo=SHANGHAI))
        memory.add("Breakfast was congee.", time=datetime(2026, 11, 25, 8, tzinfo=SHANGHAI))
    return workflow


@pytest.mark.usefixtures("_machine")
def test_a_workflow_is_told_when_it_is_asked(tmp_path: Path) -> None:
    """The manager, an attachment's handle and each node of a run count from the same time."""
    workflow = kitchen(tmp_path, "{}")
    config = workflow.node("cook").config
    assert config is not None
    with devmem.open_stores(workflow) as stores:
        manager = devmem.MemoryManager(config.memories, stores)
        result = manager.retrieve(query=QUESTION, asked_at=ASKED)
        assert result is not None
        assert "noodles" in result.formatted_text
        (hit,) = manager.attachment("notes").search(QUESTION, asked_at=ASKED)
        assert "noodles" in hit.item.content_summary
        with devmem.WorkflowRunner(workflow, stores) as runner:
            (node,) = runner.run(QUESTION, asked_at=ASKED).nodes
            shown = {hit.item.content_summary for stage in node.recalled.values() for hit in stage.hits}
            assert shown == {"Breakfast was noodles."}


@pytest.mark.usefixtures("_machine")
def test_a_store_knows_the_zone_of_those_who_ask(tmp_path: Path) -> None:
    """A time without a zone is in that of the store; one with a zone keeps its own."""
    kitchen(tmp_path, "{timezone: Asia/Shanghai}")
    times = ((ASKED.timestamp(), "noodles"), (ASKED.replace(tzinfo=None), "noodles"), (ASKED.astimezone(UTC), "congee"))
    with devmem.open(tmp_path / "team.yaml#notes") as memory:
        for asked, eaten in times:
            assert eaten in memory.search(QUESTION, asked_at=asked)[0].text


def test_what_the_prompt_has_already_gives_its_place_to_others() -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        ids = [memory.add(f"The launch is on June {day}.") for day in (2, 3, 4)]
        best = memory.search("launch on June", limit=1)[0]
        block = memory.context("launch on June", limit=1, exclude=[best.id])
        assert best.text not in block
        assert block.count("The launch is on June") == 1
        assert memory.context("launch on June", exclude=ids) == ""
