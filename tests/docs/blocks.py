"""The code blocks of the pages, and processes that run them as a reader would."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pty
import re
import runpy
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
GIVEN = Path(__file__).parent / "given"
"""Scripts that make the data that the reader of a page has, by the name of the page."""
FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS = 300
"""Time after which a block counts as hanging, however busy the machine is."""
MARKED_HOST = "python host"
"""Needs a framework: the tests of its adapter run it."""
_CONTEXT = multiprocessing.get_context("forkserver")
_DIFFERENT = {
    r"\b\d{4}-\d\d-\d\d (?:\d\d:\d\d\b|\.\.\.)": "(time)",
    r"\(\d+\.\d{3} s\)": "(seconds)",
    r"\b[0-9a-f]{32}\b": "(id)",
    r"\bdevmem_(?:[\w-]{43}|\.\.\.)": "(token)",
}
# onnxruntime reads it when it is loaded, here before devmem loads it.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
# Each process is a fork of one that has imported these, which takes longer than most blocks.
_CONTEXT.set_forkserver_preload(
    [
        "__main__",
        "devmem.adapters.mcp.server",
        "devmem.cli.commands.items",
        "devmem.cli.commands.running",
        "devmem.cli.commands.searching",
        "devmem.cli.inputs",
        "devmem.cli.targets",
        "devmem.memory.opening",
        "devmem.messages.short_term",
        "devmem.models.minilm",
        "devmem.recording.calls",
        "devmem.storage.sqlite.collection",
        "devmem.transfer.filling",
        "devmem.transfer.importing.formats",
        "devmem.server.requests",
        "devmem_stores.blackboard.store",
        "devmem_stores.conversation.store",
        "devmem_stores.simple.store",
        "onnxruntime",
        "snowballstemmer",
        "uvicorn",
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A fenced block of a page."""

    page: Path
    line: int
    info: str
    code: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def commands(self) -> list[tuple[str, str]]:
        """Return the commands of a console block, each with the output below it; without `$` each line is one."""
        code = self.code.replace("\\\n", " ")
        if code.startswith("$ "):
            return re.findall(r"^\$ ([^\n]*)\n((?:(?!\$ ).*\n?)*)", code, re.MULTILINE)
        return [(line, "") for line in code.splitlines()]


def fences_of(page: Path) -> list[Fence]:
    """Return the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Fence(page=page, line=text.count("\n", 0, match.start()) + 1, info=match["info"].strip(), code=match["code"])
        for match in FENCE.finditer(text)
    ]


FENCES = [fence for page in PAGES for fence in fences_of(page)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Output and exit code of a finished process."""

    code: int | None
    out: str
    err: str

    def checked(self) -> str:
        """Return standard output of a process that succeeded."""
        assert self.code == 0, f"exit code {self.code}\n{self.out}\n{self.err}"
        return self.out


def run_python(code: str, folder: Path) -> str:
    """Return what a Python program prints; any warning is an error."""
    return _finished(_execute, code, folder).checked()


def run_module(name: str, words: Sequence[str], folder: Path, *, typed: str = "", merged: bool = False) -> Output:
    """Run `python -m NAME` in a folder.

    Args:
        name: the module; `devmem` is the command line.
        words: its arguments.
        folder: the current folder of its process.
        typed: what its reader types on a terminal.
        merged: whether standard error goes to standard output, as on a terminal.
    """
    return _finished(_module, name, list(words), folder, typed, merged=merged)


@contextmanager
def serving(words: Sequence[str], folder: Path, until: str) -> Iterator[str]:
    """Run a command of devmem that serves, yield what it printed up to `until`, and press Ctrl+C in the end."""
    with _process(_module, "devmem", list(words), folder, "") as (process, output):
        printed = output()
        for _ in range(_SECONDS * 20):
            process.join(0.05)
            printed = output()
            if process.exitcode is not None or until in printed.out + printed.err:
                break
        assert until in printed.out + printed.err, printed
        yield printed.out + printed.err
        os.kill(process.pid or 0, signal.SIGINT)
        process.join(_SECONDS)
        assert process.exitcode in (0, 130), output()


def _finished(task: Callable[..., None], *arguments: object, merged: bool = False) -> Output:
    with _process(task, *arguments, merged=merged) as (process, output):
        process.join(_SECONDS)
        assert process.exitcode is not None, f"{arguments} does not end: {output()}"
        return output()


@contextmanager
def _process(
    task: Callable[..., None], *arguments: object, merged: bool = False
) -> Iterator[tuple[BaseProcess, Callable[[], Output]]]:
    """Run a task in a process, which is killed when the block is left; the function returns what it has printed."""
    with tempfile.TemporaryDirectory() as name:
        texts = Path(name, "out"), Path(name, "out" if merged else "err")
        process = _CONTEXT.Process(target=_as_a_program, args=(task, arguments, texts, dict(os.environ)))
        process.start()

        def output() -> Output:
            out, err = (text.read_text(encoding="utf-8") if text.exists() else "" for text in texts)
            return Output(code=process.exitcode, out=out, err=err)

        try:
            yield process, output
        finally:
            process.kill()
            process.join()


def _as_a_program(
    task: Callable[..., None], arguments: Sequence[object], texts: tuple[Path, Path], environment: dict[str, str]
) -> None:
    """Do a task as a program of its own would: with its own `__main__`, streams and warnings."""
    os.environ.clear()
    os.environ.update(environment, COLUMNS="120")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, text in enumerate(texts, 1):
        os.dup2(os.open(text, os.O_CREAT | os.O_WRONLY | os.O_APPEND), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open until the process ends
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("error")
    sys.modules["__main__"] = ModuleType("__main__")
    sys.path.insert(0, "")
    try:
        task(*arguments)
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()


def _execute(code: str, folder: Path) -> None:
    os.chdir(folder)
    exec(compile(code, "<string>", "exec"), vars(sys.modules["__main__"]))


def _module(name: str, words: Sequence[str], folder: Path, typed: str) -> None:
    os.chdir(folder)
    if typed:
        terminal, keyboard = pty.openpty()
        os.dup2(keyboard, 0)
        os.write(terminal, typed.encode())
    sys.argv = [name, *words]
    runpy.run_module(name, run_name="__main__", alter_sys=False)


def assert_printed(printed: str, told: str) -> None:
    """Compare lines; `...` stands for any text of a line, alone on a line for any lines.

    Times, durations, ids and the random part of tokens differ in each run, and are not compared.
    """
    for pattern, name in _DIFFERENT.items():
        printed, told = (re.sub(pattern, name, text.strip()) for text in (printed, told))
    pattern = re.sub(r"^\\\.\\\.\\\.$", "(?:.*\n)*.*", re.escape(told), flags=re.MULTILINE)
    pattern = pattern.replace(re.escape("..."), ".*?")
    assert re.fullmatch(pattern, printed), f"printed:\n{printed}\nthe page says:\n{told}"


def follow(page: Path, folder: Path) -> str:
    """Do what a page says from top to bottom, in one folder; compare what it shows, and return all that was printed.

    The folder has the data that a reader of the page has, and the scripts beside the page.
    """
    said = [""]
    given = GIVEN / f"{page.name.partition('.')[0]}.py"
    if given.is_file():
        run_python(given.read_text(encoding="utf-8"), folder)
    for script in page.parent.glob(f"from_{page.stem}*.py"):
        shutil.copy(script, folder)
    for fence in fences_of(page):
        if fence.info == "yaml":
            (folder / "team.yaml").write_text(fence.code, encoding="utf-8")
        elif fence.info == "python":
            said.append(run_python(fence.code, folder))
        elif fence.info == "text output" and said[-1]:
            assert_printed(said[-1], fence.code)
        elif fence.info == "console":
            said += [
                run_command(command, told, folder) for command, told in fence.commands() if reason(command) is None
            ]
    return "".join(said)


NOT_RUN = {
    r"pip install ": "fetches packages; `make test-wheel` installs the wheel with its extras",
    r"docker |echo \"POSTGRES_PASSWORD": "needs a container engine; `make container` does what the page says",
    r"claude mcp ": "is a program of an editor",
    r"make |pytest ": "is of the development of devmem itself",
    r"(?:\w+=\w+ )?python -m tools\.(?:bench|embedding|torture)": "takes minutes to hours; its short forms are kits",
    r".*postgresql://": "needs a PostgreSQL server; tests/storage/postgres has one",
    r"devmem copy .*\b(?:hosted|archive)": "needs a server of mem0; tests/stores/mem0 has one",
    r"devmem consolidate .* --facts": "needs a chat service; tests/cli/test_facts.py has one",
    r"devmem log .*\.png": "needs Graphviz",
    r"curl ": "is sent to the server that `test_server_page.py` starts",
}
"""Commands of pages that no test of the pages runs, as patterns, with the reason."""


def reason(command: str) -> str | None:
    """Return why a command of a page is not run, or None."""
    return next((why for pattern, why in NOT_RUN.items() if re.match(pattern, command)), None)


def run_command(command: str, told: str, folder: Path) -> str:
    """Run a command of a page, compare its output with what the page shows, if it does, and return it."""
    line, _, redirected = command.partition(" > ")
    line, _, given = line.partition(" < ")
    words = [word for part in shlex.split(line) for word in _expanded(part, folder)]
    if words[0] == "python" and words[1].endswith(".py"):
        printed = run_python(folder.joinpath(words[1]).read_text(encoding="utf-8"), folder)
        assert_printed(printed, told or "...")
        return printed
    if words[0] == "python":
        printed = run_module(words[2], words[3:], folder).checked()
        assert_printed(printed, told or "...")
        return printed
    assert words.pop(0) == "devmem", f"{command}: run it, or add it to NOT_RUN"
    if until := next((until for pattern, until in _SERVING.items() if re.match(pattern, command)), ""):
        with serving(_elsewhere(words), folder, until) as printed:
            return printed
    asks = words[0] == "forget" and not {"--yes", "--dry-run"} & set(words)
    # What is told of a failure, or of what was stored, comes on standard error.
    merged = bool(re.search(r"^(?:error|memory|warning): ", told, re.MULTILINE))
    typed = folder.joinpath(given).read_text(encoding="utf-8") + "\4" if given else "y\n" * bool(asks)
    done = run_module("devmem", words, folder, typed=typed, merged=merged)
    assert done.code == 0 or "error: " in told, f"{command}: {done}"
    if told:
        assert_printed(done.out, told)
    if redirected:
        folder.joinpath(redirected).write_text(done.out, encoding="utf-8")
    return done.out


def _expanded(word: str, folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in sorted(folder.glob(word))] if "*" in word else [word]


_SERVING = {
    r"devmem mcp .*--http": "://",
    r"devmem web (?!.*--export)": "://",
}
"""Commands that end with Ctrl+C, as patterns, with what they print once they serve."""


def _elsewhere(words: Sequence[str]) -> list[str]:
    """Return the words of a command with a port that is free in the place of the page's."""
    port = free_port()
    return [*words, "--port", port] if words[0] == "web" else [port if word == "8000" else word for word in words]


def free_port() -> str:
    """Return a port of this machine that nothing listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])
