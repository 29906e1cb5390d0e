"""Running adapters against the real frameworks: lists of expected failures, and what a run is compared with."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tools.hosts.__main__ import HOSTS, app
from tools.hosts.baselines import compare, read_baseline

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
    folders = {"programs" if host.is_program else name for name, host in HOSTS.items()}
    assert all((ADAPTERS / folder / "__init__.py").is_file() for folder in folders)
    assert all((pages / f"{folder}.md").is_file() for folder in folders)


def test_a_host_that_there_is_not_is_refused() -> None:
    result = CliRunner().invoke(app, ["nowhere"])
    assert result.exit_code == 2
    assert "nowhere" in result.output
