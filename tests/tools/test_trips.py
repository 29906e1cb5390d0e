"""The seven trips are recorded, and the pictures of a page follow them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import devmem
from tools.trips.__main__ import app
from tools.trips.pictures import picture_of
from tools.trips.recorder import Recorder, Trip
from tools.trips.scenario import TITLES, record_trips
from tools.trips.sizes import first_use, sizes

NAMES = ["add", "get", "search", "retrieve", "update", "erase", "run"]
PAGE = (
    "# A page\n\n" + "\n\n".join(f"<!-- trips:{name} -->\n<!-- /trips:{name} -->" for name in NAMES) + "\n\nThe end.\n"
)


@pytest.fixture(scope="module")
def trips() -> list[Trip]:
    return record_trips()


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, trips: list[Trip]) -> Callable[..., tuple[int, str]]:
    monkeypatch.setattr("tools.trips.__main__.record_trips", lambda: trips)

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
        return done.exit_code, done.output

    return run


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "page.md"
    file.write_text(PAGE, encoding="utf-8")
    return file


def test_the_table_has_seven_trips(invoke: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    code, output = invoke("--json", str(file))
    assert code == 0
    rows = json.loads(file.read_text(encoding="utf-8"))
    assert list(dict.fromkeys(row["case"] for row in rows)) == NAMES == list(TITLES)
    assert {row["metric"] for row in rows} == {"calls", "files", "depth", "packages"}
    assert {row["bench"] for row in rows} == {"trips"}
    assert all(row["value"] > 1 for row in rows)
    assert all(name in output for name in NAMES)


def test_pictures_start_at_the_callers_line_and_are_short(trips: list[Trip]) -> None:
    for trip in trips:
        opening, chart, *lines, end = picture_of(trip).splitlines()
        assert (opening, chart, end) == ("```mermaid", "flowchart TD", "```")
        assert lines[0].startswith(f'    n0(["{TITLES[trip.name]}"]) -->|"1: ')
        assert 4 <= len(lines) <= 15


def test_a_renewed_page_is_up_to_date(invoke: Callable[..., tuple[int, str]], page: Path) -> None:
    code, output = invoke(str(page), "--check")
    assert code == 1
    assert "add, get, search, retrieve, update, erase, run" in output
    assert invoke(str(page), "--write")[0] == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# A page\n\n<!-- trips:add -->\n```mermaid\n")
    assert text.endswith("```\n<!-- /trips:run -->\n\nThe end.\n")
    assert invoke(str(page), "--check")[0] == 0
    assert invoke(str(page), "--write")[0] == 0
    assert page.read_text(encoding="utf-8") == text


def test_calls_in_other_threads_are_recorded() -> None:
    recorder = Recorder()
    with recorder.installed(), devmem.open(":memory:", embedding=None) as memory:
        thread = threading.Thread(target=memory.add, args=("Ann drinks tea.",))

        def act() -> None:
            thread.start()
            thread.join()

        trip = recorder.record("add", act)
    own, other = trip.threads
    assert not own
    assert other
    assert 'n0(["another thread"])' in picture_of(trip)


def test_the_size_of_the_product_is_counted() -> None:
    figures = {row.metric: row.value for row in sizes()}
    assert set(figures) == {"lines", "files", "packages", "floors", "imported_once", "files_to_50_lines"}
    assert figures["lines"] > figures["files"] > figures["packages"] > 1
    assert figures["files"] > figures["imported_once"]


@pytest.mark.kit
def test_a_first_use_is_measured_beside_bare_imports() -> None:
    rows = {(row.case, row.metric): row.value for row in first_use(runs=1, items=3)}
    assert rows["imports", "modules"] == 0
    assert rows["imports", "cpu_ratio"] == 1
    for case in ("open_search", "shell_search", "shell_add"):
        assert rows[case, "modules"] > 10
        assert rows[case, "cpu_ratio"] > 1
