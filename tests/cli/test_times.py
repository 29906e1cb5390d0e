"""Times on the command line: read and shown in the local zone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from .conftest import Devmem


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set a zone whose day begins 14 hours before that of UTC."""
    monkeypatch.setenv("TZ", "Etc/GMT-14")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_east")
def test_what_happened_today_is_of_today(devmem: Devmem, tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    devmem("add", file, "The venue is booked.", "--time", "today")
    shown = devmem("list", file, "--after", "today").stdout
    assert shown.splitlines()[0].split()[:2] == ["date", "(+14)"]
    assert f"{datetime.now():%Y-%m-%d} 00:00" in shown
    assert "venue" not in devmem("list", file, "--before", "today").stdout
    assert "venue" in devmem("search", file, "venue", "--after", "yesterday", "--before", "tomorrow").stdout
    assert "venue" in devmem("search", file, "What was booked today?", "--explain").stdout


@pytest.mark.usefixtures("far_east")
def test_a_question_about_a_day_means_the_local_one(devmem: Devmem, tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    devmem("add", file, "The venue is booked.", "--time", "2.6.2026")
    explained = " ".join(devmem("search", file, "venue on 2 June 2026", "--explain").stdout.split())
    assert "the query names 2026-06-02 00:00 to 2026-06-03 00:00 +14" in explained


@pytest.mark.usefixtures("far_east")
def test_yesterday_is_that_of_who_asked(devmem: Devmem, tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    devmem("add", file, "Breakfast was noodles.", "--time", "2026-11-26T08:00+08:00")
    devmem("add", file, "Breakfast was congee.", "--time", "2026-11-25T08:00+08:00")
    ask = ("search", file, "What was breakfast yesterday?", "--top-k", 1, "--asked-at")
    assert "noodles" in devmem(*ask, "2026-11-27T07:00+08:00").stdout
    assert "congee" in devmem(*ask, "2026-11-26T23:00Z").stdout
    assert "--asked-at: not a time" in devmem(*ask, "soon", code=2).stderr


@pytest.mark.usefixtures("far_east")
def test_a_run_counts_from_the_time_that_it_is_told(workflow: Path, devmem: Devmem) -> None:
    devmem("add", workflow, "notes", "Breakfast was noodles.", "--time", "2026-11-26T08:00+08:00")
    devmem("add", workflow, "notes", "Breakfast was congee.", "--time", "2026-11-25T08:00+08:00")
    ask = ("run", workflow, "--node", "analyst", "--input", "What was breakfast yesterday?", "--json", "--asked-at")
    for asked_at, eaten in (("2026-11-27T07:00+08:00", "noodles"), ("2026-11-26T23:00Z", "congee")):
        (run,) = map(json.loads, devmem(*ask, asked_at).stdout.splitlines())
        best = max(run["nodes"][0]["recalled"], key=lambda hit: float(hit["score"]))
        assert eaten in best["text"]


@pytest.mark.parametrize("expiry", ["in 30 days", "P30D", "30d"])
def test_an_expiry_is_counted_from_now(devmem: Devmem, tmp_path: Path, expiry: str) -> None:
    file = tmp_path / "notes.db"
    before = time.time()
    devmem("add", file, "The door code is 4711.", "--expires-at", expiry)
    (item,) = json.loads(devmem("list", file, "--json").stdout)
    expires = datetime.fromisoformat(item["expires_at"]).timestamp()
    assert before <= expires - 30 * 86_400 <= time.time()


@pytest.mark.parametrize("command", [("list",), ("search", "venue"), ("forget", "--yes")])
def test_a_period_that_does_not_end_after_its_start(devmem: Devmem, tmp_path: Path, command: tuple[str, ...]) -> None:
    """Nothing can be in it: silence would be taken for an answer."""
    file = tmp_path / "notes.db"
    devmem("add", file, "The venue is booked.", "--time", "2026-05-01")
    for before in ("2026-05-01", "2026-05-02"):
        refused = devmem(command[0], file, *command[1:], "--after", "2026-05-02", "--before", before, code=2)
        assert f"--after '2026-05-02' is not earlier than --before '{before}'" in " ".join(refused.stderr.split())
    assert "The venue" in devmem("list", file, "--after", "2026-05-01", "--before", "2026-05-02").stdout


def test_other_texts_are_refused_with_the_forms(devmem: Devmem, tmp_path: Path) -> None:
    refused = devmem("add", tmp_path / "notes.db", "x", "--time", "soonish", code=2)
    assert "not a time: 'soonish'; write it as one of 2026-06-02, " in " ".join(refused.stderr.split())


def test_a_difference_between_times_in_the_wrong_order_is_refused(devmem: Devmem, tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    devmem("add", file, "The venue is booked.")
    assert (
        "--to is earlier than --from"
        in devmem("history", file, "--from", "tomorrow", "--to", "yesterday", code=2).stderr
    )
    assert "add" in devmem("history", file, "--from", "yesterday", "--to", "tomorrow").stdout
