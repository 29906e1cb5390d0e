"""Running adapters against the real frameworks: expected failures, what a run is compared with, and stand-ins."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import date
from importlib import import_module
from pathlib import Path

import pytest
from packaging.version import Version
from typer.testing import CliRunner

from tools.hosts.__main__ import HOSTS, app
from tools.hosts.baselines import compare, read_baseline
from tools.hosts.shims.stand_ins import stand_in_for
from tools.hosts.table import PAGE, Row, minimum_versions, read_rows, with_row

ADAPTERS = Path(__file__).resolve().parents[1] / "adapters"


def test_a_run_agrees_when_exactly_the_expected_tests_fail() -> None:
    assert compare(failed=["a"], passed=["b"], expected=["a"]).agrees
    assert compare(failed=[], passed=["b"], expected=[]).agrees


def test_new_failures_and_listed_tests_that_pass_or_are_gone_are_named() -> None:
    found = compare(failed=["new"], passed=["mended"], expected=["mended", "renamed"])
    assert (found.unexpected, found.fixed, found.absent) == (("new",), ("mended",), ("renamed",))
    assert not any(
        compare(failed, passed, expected).agrees
        for failed, passed, expected in [(["a"], [], []), ([], ["a"], ["a"]), ([], [], ["a"])]
    )


def test_a_test_has_one_reason(tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    file.write_text("one reason: [a]\nanother: [a]\n", encoding="utf-8")
    with pytest.raises(ValueError, match="a is listed twice"):
        read_baseline(file)


@pytest.mark.parametrize("file", sorted([*ADAPTERS.glob("*/host_failures.yaml"), *ADAPTERS.glob("*/conformance/*")]))
def test_every_expected_failure_has_a_reason(file: Path) -> None:
    assert all(len(reason) > 20 for reason in read_baseline(file).values())


def test_every_host_has_tests_and_a_page() -> None:
    pages = ADAPTERS.parents[1] / "docs/adapters"
    folders = {host.page(name) for name, host in HOSTS.items()}
    assert all((ADAPTERS / folder / "__init__.py").is_file() for folder in folders)
    assert all((pages / f"{folder}.md").is_file() for folder in folders)


def test_a_host_that_there_is_not_is_refused() -> None:
    result = CliRunner().invoke(app, ["nowhere"])
    assert result.exit_code == 2
    assert "nowhere" in result.output


def test_the_table_of_versions_has_the_hosts_and_the_smallest_versions_that_are_accepted() -> None:
    rows = read_rows(PAGE.read_text(encoding="utf-8"))
    assert sorted(row.host for row in rows) == sorted(HOSTS)
    assert {row.host: row.page for row in rows} == {name: host.page(name) for name, host in HOSTS.items()}
    accepted = {name: minimum_versions(host.requirements(name)) for name, host in HOSTS.items()}
    assert {row.host: row.minimum for row in rows} == accepted


@pytest.mark.parametrize("row", read_rows(PAGE.read_text(encoding="utf-8")), ids=lambda row: row.host)
def test_a_row_says_which_accepted_versions_passed_and_when(row: Row) -> None:
    assert len(row.tested) == len(row.minimum)
    accepted = zip(row.tested, row.minimum.values(), strict=True)
    assert all(Version(tested) >= Version(smallest) for tested, smallest in accepted)
    assert date.fromisoformat(row.on).isoformat() == row.on
    assert "passed" in row.ours
    assert "failed" not in row.ours
    assert "unexpected" not in row.own


def test_no_framework_has_an_upper_bound_but_those_that_say_why() -> None:
    bounded = {
        name
        for name, host in HOSTS.items()
        if any("<" in requirement for requirement in (*host.requirements(name), *host.packages))
    }
    assert bounded == {"mcp", "chatdev"}, "chatdev has the bound of mem0's client"


def _row(host: str, tested: str) -> Row:
    return Row(
        host=host, page="programs", minimum={host: "1.0"}, tested=[tested], on="2026-11-23", ours="1 passed", own=""
    )


def test_a_row_takes_the_place_of_that_of_its_host_and_a_new_one_comes_last() -> None:
    page = f"# Hosts\n\n{_row('agno', '1.1')}\n{_row('dspy', '1.2')}\n\nThe end.\n"
    renewed = with_row(with_row(page, _row("agno", "2.0")), _row("smolagents", "3.0"))
    assert renewed == (
        f"# Hosts\n\n{_row('agno', '2.0')}\n{_row('dspy', '1.2')}\n{_row('smolagents', '3.0')}\n\nThe end.\n"
    )
    assert [row.tested for row in read_rows(renewed)] == [["2.0"], ["1.2"], ["3.0"]]


def test_a_page_without_a_table_and_a_requirement_without_a_version_are_refused() -> None:
    with pytest.raises(ValueError, match="no table"):
        with_row("# Hosts\n", _row("agno", "1.1"))
    with pytest.raises(ValueError, match="'agno' names no smallest version"):
        minimum_versions(["agno"])


@pytest.fixture
def imports() -> Iterator[None]:
    finders, modules = list(sys.meta_path), set(sys.modules)
    yield
    sys.meta_path[:] = finders
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.mark.usefixtures("imports")
def test_names_of_a_package_that_is_not_there_can_be_imported_subclassed_and_called() -> None:
    stand_in_for(["no_such_sdk"])
    module = import_module("no_such_sdk.types.chat")
    made = type("Made", (module.Completion,), {})
    assert isinstance(made("x", key=1), module.Completion)
    assert module.Completion is module.Completion
    assert (module.Completion | None) is module.Completion[int] is module.Completion
    assert module.decorator()(made) is made
    assert not hasattr(module, "__path_of_nothing__")
    assert not hasattr(module.Completion, "__path_of_nothing__")


@pytest.mark.usefixtures("imports")
def test_packages_that_are_there_and_others_are_not_stood_in_for() -> None:
    stand_in_for(["json"])
    assert import_module("json").loads("[1]") == [1]
    with pytest.raises(ModuleNotFoundError):
        import_module("another_sdk")
