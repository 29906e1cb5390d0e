"""The list of changes fits the code, and a broken guarantee is told from one that no test looks at."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tools.mutants import __main__ as command
from tools.mutants.__main__ import CHANGES
from tools.mutants.change import Change

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "tests" / "collection_suite"


@pytest.mark.sources
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_each_change_finds_the_code_that_it_changes(change: Change) -> None:
    source = (ROOT / change.file).read_text(encoding="utf-8")
    compile(change.applied_to(source), change.file, "exec")
    suite = "\n".join(file.read_text(encoding="utf-8") for file in SUITE.glob("*.py"))
    for test in change.tests:
        file, _, name = test.partition("::")
        tests = (ROOT / file).read_text(encoding="utf-8")
        function = name.rpartition("::")[2].partition("[")[0]
        assert not name or f"def {function}(" in tests or f"def {function}(" in suite, test


def test_names_are_unique() -> None:
    assert len({change.name for change in CHANGES}) == len(CHANGES)


def test_code_that_occurs_twice_is_not_guessed_at() -> None:
    change = Change(name="x", breaks="", file="x.py", old="a", new="b", tests=())
    with pytest.raises(ValueError, match=r"occurs 2 times in x\.py"):
        change.applied_to("a a")


@pytest.mark.kit
@pytest.mark.sources
@pytest.mark.parametrize(
    ("new", "tests", "said", "code"),
    [
        ("0o644", "owner or mode or private", "noticed", 0),
        ("0o600 | 0", "owner or mode or private", "survived", 1),
        ("0o600)", "owner or mode or private", "invalid", 1),
        ("0o644", "no_test_has_this_name", "do not pass without a change", 2),
    ],
)
def test_a_change_is_noticed_survives_or_is_invalid(
    new: str, tests: str, said: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = Change(
        name="mode",
        breaks="files are private",
        file="devmem/text/files.py",
        old="OWNER_ONLY: Final = 0o600",
        new=f"OWNER_ONLY: Final = {new}",
        tests=("tests/text/test_atomic_write.py", "-k", tests),
    )
    monkeypatch.setattr(command, "CHANGES", (change,))
    done = CliRunner().invoke(command.app, [])
    assert (done.exit_code, said in done.output) == (code, True), done.output


def test_an_unknown_name_is_refused() -> None:
    done = CliRunner().invoke(command.app, ["nothing"])
    assert done.exit_code == 2
    assert "no change is named nothing" in done.output
