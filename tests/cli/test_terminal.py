"""The output that a person at a terminal sees, and the handling of errors."""

from __future__ import annotations

import io
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from devmem.cli.app import show_logs
from devmem.cli.commands import checking as validate
from devmem.cli.targets import load_with_progress
from devmem.cli.terminal import Terminal
from devmem.stores import StoreSetup
from devmem_stores.file import FileConfig, FileMemory

from .conftest import COMMANDS, Devmem


def terminal(*, width: int = 60, is_terminal: bool = True) -> Terminal:
    out = Console(file=io.StringIO(), width=width, force_terminal=is_terminal, color_system=None, highlight=False)
    err = Console(file=io.StringIO(), width=width, force_terminal=is_terminal, color_system=None, highlight=False)
    return Terminal(out=out, err=err)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


ID = "0123456789abcdef0123456789abcdef"


def test_a_table_that_fits_is_a_table_without_empty_columns() -> None:
    screen = terminal(width=80)
    screen.table(("id", "none", "text"), [[ID, "", "a long text " * 8]])
    head, _rule, first, *_ = printed(screen.out).strip().splitlines()
    assert head.split() == ["id", "text"]
    assert re.fullmatch(ID + " +a long text .*", first.strip())


@pytest.mark.parametrize("width", [40, 60, 79])
def test_a_text_is_never_squeezed_into_a_narrow_column(width: int) -> None:
    """Where 40 columns are not left for the text, each row is a list: named cells, then the text."""
    screen = terminal(width=width)
    screen.table(("date", "id", "none", "source", "text"), [["2025-05-20 10:00", ID, "", "a", "a long text " * 8]])
    shown = printed(screen.out)
    assert "…" not in shown
    assert "none" not in shown
    assert f"id {ID}" in " ".join(shown.split())
    texts = [line.strip() for line in shown.splitlines() if "long" in line]
    assert len(texts) <= -(-96 // (width - 14))


def test_a_list_names_its_last_cell_where_no_row_has_a_text() -> None:
    """As `devmem runs` where nobody is known to have made the changes."""
    screen = terminal(width=40)
    screen.table(("run", "state", "changes", "by"), [[ID, "committed", "12", ""]], numbers=("changes",))
    assert " ".join(printed(screen.out).split()) == f"{ID} state committed changes 12"


def test_a_short_text_needs_no_forty_columns() -> None:
    screen = terminal(width=50)
    screen.table(("type", "provided by", "text"), [["simple", "devmem 0.1.0", "short"]])
    assert printed(screen.out).strip().splitlines()[0].split() == ["type", "provided", "by", "text"]


def test_a_row_is_a_line_where_a_program_reads_it() -> None:
    screen = terminal(width=20, is_terminal=False)
    screen.table(("名字", "text"), [["发布会", "one\ntwo " * 30], ["x", ""]])
    head, first, second = printed(screen.out).splitlines()
    assert head == "名字    text"
    assert first == "发布会  " + ("one two " * 30).strip()
    assert second == "x"


def test_a_store_of_files_shows_its_progress(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("# Plan\n", encoding="utf-8")
    config = FileConfig.model_validate({"file_sources": [{"path": "plan.md"}]})
    store = FileMemory(StoreSetup(name="docs", store_type="file", config=config, base_dir=tmp_path))
    screen = terminal(width=100)
    load_with_progress(screen, store)
    store.close()
    assert "indexing docs" in printed(screen.out)
    assert "docs: 1 new, 0 unchanged" in printed(screen.err)


def test_no_bar_where_nobody_watches() -> None:
    screen = terminal(is_terminal=False)
    with screen.progress("running", 10) as bar:
        bar.advance(bar.task_ids[0])
    assert printed(screen.out) + printed(screen.err) == ""


def test_a_stored_text_cannot_change_the_order_of_a_line() -> None:
    """Controls of text direction (UAX #9) are shown as escapes, as those of the terminal are."""
    screen = terminal()
    screen.print("pay \u202egnp.exe\u2066 \u200f\x1b[2J")
    screen.write("\u202e")
    assert printed(screen.out) == "pay \\u202egnp.exe\\u2066 \\u200f\\x1b[2J\n\\u202e"


def test_logs_are_lines_and_are_put_back() -> None:
    logger = logging.getLogger("devmem")
    before = list(logger.handlers), logger.level, logger.propagate
    screen = terminal(width=400)
    undo = show_logs(screen, verbose=True)
    logging.getLogger("devmem.x").warning("two\nlines %s", "here")
    logging.getLogger("devmem.x").warning("two\nlines %s", "here")
    logging.getLogger("devmem.x").error("bad")
    logging.getLogger("devmem.x").info("more")
    undo()
    assert printed(screen.err).splitlines() == ["warning: two lines here", "error: bad", "devmem.x: more"]
    assert (list(logger.handlers), logger.level, logger.propagate) == before


def test_help_teaches_every_command(devmem: Devmem) -> None:
    """Each has an example that can be copied, and no flag pretends to take a value."""
    shown = devmem("--help").stdout
    for name, command in COMMANDS.items():
        assert f"  {name} " in shown
        page = devmem(name, "--help").stdout
        assert re.search(f"^ +devmem {name} ", page + " ", re.M), f"devmem {name} --help has no example"
        assert "<bool>" not in page
        assert command.loaded.get_short_help_str(200).rstrip(".") == command.short_help.rstrip(".")
    assert "<bool>" not in shown
    assert devmem("--version").stdout.startswith("devmem ")


def test_version_and_help_import_no_command() -> None:
    code = (
        "import sys\nfrom devmem.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "print(*(m for m in sys.modules if m.startswith('devmem.cli.commands.') or m == 'rich'), file=sys.stderr)"
    )
    for option in ("--version", "--help"):
        done = subprocess.run([sys.executable, "-c", code, option], capture_output=True, text=True, check=True)
        assert done.stderr.strip() == ""


def test_a_wrong_option_shows_how_it_is_meant(devmem: Devmem) -> None:
    assert "Usage:" in devmem("search", "--nope", code=2).stderr
    assert "Usage:" in devmem("nope", code=2).stderr


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeError("the moon is full"), 70, "internal error (please report): RuntimeError: the moon is full"),
        (PermissionError(13, "Permission denied", "x.db"), 2, "error: x.db: Permission denied"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_no_error_is_a_traceback(
    devmem: Devmem, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(validate, "show_check", fail)
    path = Path(__file__).parents[2] / "configs" / "simple.yaml"
    result = devmem("validate", path, code=code)
    assert said in result.stderr
    assert "Traceback" not in result.output
    if code in (2, 70):
        assert "Traceback" in devmem("--debug", "validate", path, code=code).stderr


def test_lines_are_asked_for_at_a_terminal(workflow: Path, devmem: Devmem, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter(["The launch moved to the third of May.", "  ", "When is the launch?"])

    def typed(_self: Console, _prompt: str) -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(Console, "input", typed)
    monkeypatch.setattr("devmem.cli.commands.running.can_ask", lambda: True)
    shown = devmem("run", workflow, "--node", "scribe").stdout
    assert "The launch moved to the third of May." in shown


def test_a_warning_does_not_continue_a_line_of_the_answer(tmp_path: Path) -> None:
    """As with `--stream` on a terminal, where both streams are the same."""
    path = tmp_path / "both"
    with path.open("a") as out, path.open("a") as err:
        terminal = Terminal(out=Console(file=out), err=Console(file=err))
        terminal.print_piece("The launch is")
        terminal.report("warning", "the store is slow")
        terminal.print_piece(" on June 2nd.")
        terminal.end_line()
    assert path.read_text().splitlines() == ["The launch is", "warning: the store is slow", " on June 2nd."]
