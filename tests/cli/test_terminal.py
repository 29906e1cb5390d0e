"""What a person at a terminal sees, and what becomes of errors."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest
from rich.console import Console

from devmem.cli import validate
from devmem.cli.logs import show_logs
from devmem.cli.terminal import Terminal

from .conftest import Devmem


def terminal(*, width: int = 60, is_terminal: bool = True) -> Terminal:
    out = Console(file=io.StringIO(), width=width, force_terminal=is_terminal, color_system=None, highlight=False)
    err = Console(file=io.StringIO(), width=width, force_terminal=is_terminal, color_system=None, highlight=False)
    return Terminal(out=out, err=err)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_no_cell_of_a_table_is_cut_on_a_narrow_terminal() -> None:
    screen = terminal(width=40)
    screen.table(("id", "none", "text"), [["0123456789abcdef0123456789abcdef", "", "a long text " * 8]])
    shown = printed(screen.out)
    assert "…" not in shown
    assert "none" not in shown
    first_column = "".join(line.split("  ")[0].strip() for line in shown.splitlines()[3:])
    assert first_column == "0123456789abcdef0123456789abcdef"


def test_a_row_is_a_line_where_a_program_reads_it() -> None:
    screen = terminal(width=20, is_terminal=False)
    screen.table(("名字", "text"), [["发布会", "one\ntwo " * 30], ["x", ""]])
    head, first, second = printed(screen.out).splitlines()
    assert head == "名字    text"
    assert first == "发布会  " + ("one two " * 30).strip()
    assert second == "x"


def test_answers_appear_above_the_progress_bar() -> None:
    screen = terminal()
    with screen.progress("[red]running", 10) as bar:
        bar.advance(bar.task_ids[0])
        screen.print("an answer")
        bar.refresh()
        assert "[red]running" in printed(screen.out)
        assert "1/10" in printed(screen.out)
    assert "an answer" in printed(screen.out)


def test_no_bar_where_nobody_watches() -> None:
    screen = terminal(is_terminal=False)
    with screen.progress("running", 10) as bar:
        bar.advance(bar.task_ids[0])
    assert printed(screen.out) + printed(screen.err) == ""


def test_json_can_be_written_in_any_encoding() -> None:
    for encoding in ("utf-8", "ascii", "gbk"):
        raw = io.BytesIO()
        screen = Terminal(out=Console(file=io.TextIOWrapper(raw, encoding=encoding)))
        screen.json({"text": "发布会 é"})
        assert raw.getvalue().decode(encoding).strip() in (
            '{"text": "发布会 é"}',
            '{"text": "\\u53d1\\u5e03\\u4f1a \\u00e9"}',
        )


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
    shown = devmem("--help").stdout
    for command in ("run", "validate", "stores", "search", "show", "import", "reindex", "schema"):
        assert f" {command} " in shown
        assert f"devmem {command}" in devmem(command, "--help").stdout
    assert devmem("--version").stdout.startswith("devmem ")


def test_a_wrong_option_shows_how_it_is_meant(devmem: Devmem) -> None:
    assert "Usage:" in devmem("search", "--nope", code=2).stderr
    assert "Usage:" in devmem("nope", code=2).stderr


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeError("the moon is full"), 70, "devmem made a mistake: RuntimeError: the moon is full"),
        (PermissionError(13, "Permission denied", "x.db"), 2, "error: x.db: Permission denied"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(), 1, ""),
    ],
)
def test_no_error_is_a_traceback(
    devmem: Devmem, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(validate, "_counts", fail)
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
    monkeypatch.setattr("devmem.cli.inputs._at_terminal", lambda: True)
    shown = devmem("run", workflow, "--node", "scribe").stdout
    assert "The launch moved to the third of May." in shown
