"""Scripts that are forked behave as those of a new interpreter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import StartScript


def read(process: object) -> str:
    stdout = getattr(process, "stdout", None)
    assert stdout is not None
    return str(stdout.read())


def test_a_file_has_its_arguments_folder_and_environment(
    tmp_path: Path, start_script: StartScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "neighbour.py").write_text("NAME = 'a module beside it'")
    script = tmp_path / "script.py"
    script.write_text(
        "import json, os, sys, neighbour\n"
        "if __name__ == '__main__':\n"
        "    print(json.dumps([sys.argv, __file__, os.getcwd(), os.environ['ASKED'], neighbour.NAME, input()]))\n"
    )
    monkeypatch.setenv("ASKED", "yes")
    monkeypatch.chdir(tmp_path)
    process = start_script(script, "one", 2)
    assert process.stdin is not None
    process.stdin.write("a line\n")
    process.stdin.close()
    expected = [[str(script), "one", "2"], str(script), str(tmp_path), "yes", "a module beside it", "a line"]
    assert json.loads(read(process)) == expected
    assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        ("", 0),
        ("raise SystemExit(3)", 3),
        ("raise ValueError", 1),
        ("import warnings; warnings.warn('an error here')", 1),
        ("import os; os._exit(9)", 9),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_its_end(start_script: StartScript, code: str, ends: int) -> None:
    assert start_script(code).wait(60) == ends


def test_it_ends_as_an_interpreter_does(start_script: StartScript) -> None:
    """Threads are waited for, and what is registered for the end is called."""
    process = start_script(
        "import atexit, threading\n"
        "atexit.register(print, 'at the end')\n"
        "event = threading.Event()\n"
        "threading.Thread(target=lambda: (event.wait(), print('thread'))).start()\n"
        "threading.Timer(0.01, event.set).start()\n"
        "print('main')\n"
    )
    assert read(process) == "main\nthread\nat the end\n"


@pytest.mark.parametrize(("sent", "ends"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_signal_ends_it_alone(start_script: StartScript, sent: signal.Signals, ends: int) -> None:
    waiting, other = (start_script("print('ready', flush=True); input()") for _ in range(2))
    for process in (waiting, other):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    assert waiting.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0)
    waiting.send_signal(sent)
    assert waiting.wait(60) == waiting.poll() == waiting.returncode == ends
    assert other.poll() is None
    assert other.stdin is not None
    other.stdin.write("\n")
    other.stdin.close()
    assert other.wait(60) == 0


def test_it_is_interrupted_as_by_a_key(start_script: StartScript) -> None:
    process = start_script(
        "try:\n    print('ready', flush=True)\n    input()\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert read(process) == "interrupted\n"
    assert process.wait(60) == 0


def test_each_has_random_numbers_of_its_own_and_no_open_file(start_script: StartScript) -> None:
    code = "import os, random, threading\nprint(random.random(), threading.active_count(), len(os.listdir('/dev/fd')))"
    (one, two) = (read(start_script(code)).split() for _ in range(2))
    assert one[0] != two[0]
    command = [sys.executable, "-c", code]
    fresh = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ}).stdout.split()
    assert one[1:] == two[1:] == fresh[1:]
