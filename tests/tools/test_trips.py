"""The seven trips are recorded, and the pictures of a page follow them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import devmem
from tools.trips.__main__ import app
from tools.trips.pictures import picture_of
from tools.trips.recorder import Call, Recorder, Trip
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


def call(file: str, function: str, depth: int, *, resumed: bool = False) -> Call:
    return Call(file=f"devmem/{file}.py", function=function, depth=depth, resumed=resumed)


def arrows(*calls: Call) -> list[str]:
    """Return the lines of a picture of calls in one thread."""
    return [line.strip() for line in picture_of(Trip(name="add", threads=[calls])).splitlines()[2:-1]]


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


def test_the_same_trips_have_the_same_pictures() -> None:
    """In processes of their own, since a process remembers how it analysed a text."""
    command = [sys.executable, "-m", "tools.trips", "--mermaid"]
    first, second = (
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    )
    assert first == second
    assert first.count(b"flowchart") == len(NAMES)


def test_pictures_start_at_the_callers_line_and_are_short(trips: list[Trip]) -> None:
    for trip in trips:
        opening, chart, *lines, end = picture_of(trip).splitlines()
        assert (opening, chart, end) == ("```mermaid", "flowchart TD", "```")
        assert lines[0].startswith(f'    n0(["{TITLES[trip.name]}"]) -->|"1: ')
        assert 4 <= len(lines) <= 15


def test_every_trip_leaves_the_file_that_it_enters(trips: list[Trip]) -> None:
    for trip in trips:
        assert trip.figures()["depth"] > 3, trip.name
        assert trip.threads[0][0].depth == 1


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


def test_a_changed_picture_is_noticed(invoke: Callable[..., tuple[int, str]], page: Path) -> None:
    invoke(str(page), "--write")
    head, _, rest = page.read_text(encoding="utf-8").partition("<!-- trips:search -->")
    changed = head + "<!-- trips:search -->" + rest.replace("2: ", "3: ", 1)
    page.write_text(changed, encoding="utf-8")
    code, output = invoke(str(page), "--check")
    assert code == 1
    assert "out of date: search;" in output
    assert f"--write {page}" in output
    assert page.read_text(encoding="utf-8") == changed


@pytest.mark.parametrize(
    ("now", "then", "message"),
    [
        ("<!-- /trips:get -->", "", "is needed for get"),
        ("<!-- trips:erase -->", "<!-- /trips:erase -->", "is needed for erase"),
        ("The end.", "<!-- trips:add -->\n<!-- /trips:add -->", "is needed for add"),
        ("The end.", "<!-- trips:forget -->", "no trip is named 'forget'"),
    ],
)
def test_blocks_that_do_not_fit_the_trips_are_named(
    invoke: Callable[..., tuple[int, str]], page: Path, now: str, then: str, message: str
) -> None:
    text = PAGE.replace(now, then)
    page.write_text(text, encoding="utf-8")
    for option in ("--write", "--check"):
        code, output = invoke(str(page), option)
        assert code == 1
        assert message in output
    assert page.read_text(encoding="utf-8") == text


def test_a_page_that_does_not_exist_is_named(invoke: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    code, output = invoke(str(tmp_path / "none.md"), "--check")
    assert code == 1
    assert "none.md" in output


def test_options_for_the_page_exclude_one_another(invoke: Callable[..., tuple[int, str]], page: Path) -> None:
    assert invoke(str(page), "--write", "--check")[0] == 2


def test_calls_that_go_the_same_way_are_one_arrow() -> None:
    found = arrows(call("a", "A.f", 1), call("b", "B.__init__", 2), call("b", "B.g", 2), call("b", "B.g", 2))
    assert found == ['n0(["memory.add"]) -->|"1: A.f"| n1["a"]', 'n1 -->|"2: B.g, B"| n2["b"]']


def test_a_callback_belongs_to_the_file_that_it_returns_to() -> None:
    found = arrows(call("a", "f", 1), call("b", "run", 2), call("a", "f.<locals>.<lambda>", 3), call("c", "write", 4))
    assert found[1:] == ['n1 -->|"2: run"| n2["b"]', 'n1 -->|"3: write"| n3["c"]']


def test_the_callers_own_calls_keep_their_order() -> None:
    found = arrows(call("runs", "Run.__enter__", 1), call("a", "add", 1), call("runs", "Run.commit", 1))
    assert [line.partition("|")[2].partition("|")[0] for line in found] == ['"1: Run"', '"2: add"', '"3: Run.commit"']


def test_a_generator_that_continues_is_no_call_of_its_own(trips: list[Trip]) -> None:
    again = [call("a", "f", 1), call("b", "each", 2), call("b", "each", 2, resumed=True)]
    assert Trip(name="add", threads=[again]).figures() == {"calls": 2, "files": 2, "depth": 2, "packages": 1}
    recorded = [call for trip in trips for thread in trip.threads for call in thread]
    assert any(call.resumed for call in recorded)


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
