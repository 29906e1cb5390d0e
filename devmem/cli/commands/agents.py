"""`devmem init --agent` and `devmem hook`: the MCP entry and the hooks of coding agents, and the work of the hooks.

An entry is put at the beginning of its list or object, so that taking it out leaves the file as it was, comments
included.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from devmem.cli.targets import MemoryPlace
from devmem.cli.terminal import Terminal
from devmem.errors import DataFileError, DevmemError
from devmem.memory.opening import open as open_memory
from devmem.text.files import replace_file


class Agent(StrEnum):
    """Coding agents whose files are known."""

    CLAUDE_CODE = "claude-code"
    CURSOR = "cursor"
    CODEX = "codex"


class HookTime(StrEnum):
    """When a hook is called."""

    START = "start"
    END = "end"


NAME: Final = "devmem"
"""Name of the server in an agent's file."""
_HOOK: Final = " -m devmem hook "
"""Part of the command of each hook."""
_TOML: Final = re.compile(rf"\n?^\[mcp_servers\.{NAME}\]\n(?:command|args) = .*\n(?:command|args) = .*\n", re.MULTILINE)
_ASKED: Final = "What was decided, preferred and left open in {project}?"
_TOKENS: Final = 1_000


def agent_files(agent: Agent, memory: Path, project: Path, home: Path, *, remove: bool = False) -> list[Path]:
    """Write the entries of an agent, or with `remove` take them out, and return the files that were changed.

    Args:
        agent: `claude-code`, `cursor` or `codex`.
        memory: file of the memory.
        project: folder in which `claude-code` and `cursor` have their files.
        home: folder in which `codex` has its own.
        remove: take the entries out.

    Raises:
        DataFileError: a file cannot be read as what it should be; nothing was changed.
    """
    server = {"command": sys.executable, "args": ["-m", "devmem", "mcp", str(memory)]}

    def hook(when: str) -> dict[str, str]:
        command = f"{shlex.quote(sys.executable)}{_HOOK}{when} {shlex.quote(str(memory))}"
        return {"command": command}

    def claude(when: str) -> dict[str, Any]:
        return {"hooks": [{"type": "command", **hook(when)}]}

    entries: Mapping[Agent, Mapping[Path, Sequence[tuple[tuple[str, ...], object]]]] = {
        Agent.CLAUDE_CODE: {
            project / ".mcp.json": [(("mcpServers", NAME), server)],
            project / ".claude/settings.json": [
                (("hooks", "SessionStart"), claude("start")),
                (("hooks", "SessionEnd"), claude("end")),
            ],
        },
        Agent.CURSOR: {
            project / ".cursor/mcp.json": [(("mcpServers", NAME), server)],
            project / ".cursor/hooks.json": [(("version",), 1), (("hooks", "sessionStart"), hook("start"))],
        },
        Agent.CODEX: {
            home / ".codex/hooks.json": [
                (("hooks", "SessionStart"), claude("start")),
                (("hooks", "Stop"), claude("end")),
            ],
        },
    }
    changed = {file: _edited(file, _read(file), each, remove=remove) for file, each in entries[agent].items()}
    if agent is Agent.CODEX:
        file = home / ".codex/config.toml"
        changed[file] = _toml(file, _read(file), server, remove=remove)
    return [file for file, text in changed.items() if _write(file, text)]


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8") if file.exists() else ""
    except UnicodeDecodeError as error:
        raise DataFileError(file, "it is not text in UTF-8") from error


def _write(file: Path, text: str) -> bool:
    """Write a file, or remove it where nothing is left; report whether it has changed."""
    if text == _read(file):
        return False
    if text:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, [text.encode("utf-8")])
    else:
        file.unlink()
    return True


def _toml(file: Path, text: str, server: Mapping[str, Any], *, remove: bool) -> str:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataFileError(file, f"it is not TOML: {error}") from error
    rest = _TOML.sub("", text, count=1)
    if remove:
        return rest
    if tomllib.loads(rest).get("mcp_servers", {}).get(NAME) is not None:
        raise DataFileError(file, f"it has a server {NAME!r} of another form; take it out first")
    end = "" if not rest or rest.endswith("\n") else "\n"
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in server.items())
    return f"{rest}{end}\n[mcp_servers.{NAME}]\n{lines}"


# JSON, with comments.

_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA: Final = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])')


def _edited(file: Path, given: str, entries: Sequence[tuple[tuple[str, ...], object]], *, remove: bool) -> str:
    """Return the text of a file with the entries, each a member of an object or an element of a list, or without."""
    text = given if given.strip() else "{}\n"
    for path, value in entries:
        # A value in an object stands under the last key, one in a list below it.
        is_hook = isinstance(value, dict) and path[-1] != NAME
        where = path if is_hook else path[:-1]
        if path == ("version",):
            if not remove and "version" not in _parsed(file, text):
                text = _inserted(file, text, (), '"version": 1')
            continue
        text = _taken_out(file, text, where, is_ours if is_hook else lambda key, _: key == NAME)
        if not remove:
            shown = json.dumps(value, indent=2, ensure_ascii=False)
            text = _inserted(file, text, where, shown if is_hook else f'"{NAME}": {shown}', in_list=is_hook)
    return "" if remove and _parsed(file, text) in ({}, {"version": 1}) else text


def is_ours(_key: str, value: object) -> bool:
    """Whether an element of a list of hooks is one of devmem."""
    return _HOOK in json.dumps(value, ensure_ascii=False)


def _blank(text: str) -> str:
    """Return a text of the same length without comments and without commas behind the last member."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else re.sub(r"\S", " ", found[0])

    return _LAST_COMMA.sub(blank, _COMMENT.sub(blank, text))


def _parsed(file: Path, text: str) -> dict[str, Any]:
    try:
        found = json.loads(_blank(text))
    except ValueError as error:
        raise DataFileError(file, f"it is not JSON, and was not changed: {error}") from error
    if not isinstance(found, dict):
        raise DataFileError(file, f"it holds a {type(found).__name__}, not an object, and was not changed")
    return found


def _members(blank: str, start: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield key, beginning, beginning of the value and end of the members of an object, or of a list without keys."""
    decoder, at = json.JSONDecoder(), start + 1
    while True:
        at = _next(blank, at, " \t\r\n,")
        if blank[at] in "}]":
            return
        key, begin, value = "", at, at
        if blank[start] == "{":
            key, at = decoder.raw_decode(blank, at)
            value = _next(blank, at, " \t\r\n:")
        _, at = decoder.raw_decode(blank, value)
        yield key, begin, value, at


def _next(text: str, at: int, passed: str) -> int:
    while text[at] in passed:
        at += 1
    return at


def _container(file: Path, text: str, path: Sequence[str]) -> tuple[int, int]:
    """Return the place of the deepest bracket on a path, and the number of keys that lead there."""
    blank = _blank(text)
    start, depth = blank.index("{"), 0
    for key in path:
        found = {name: value for name, _, value, _ in _members(blank, start)}.get(key)
        if found is None:
            break
        if blank[found] not in "{[":
            raise DataFileError(file, f"{'.'.join(path[: depth + 1])} is neither an object nor a list")
        start, depth = found, depth + 1
        if blank[start] == "[":
            break
    return start, depth


def _inserted(file: Path, text: str, path: Sequence[str], member: str, *, in_list: bool = False) -> str:
    _parsed(file, text)
    start, depth = _container(file, text, path)
    if depth == len(path) and in_list != (text[start] == "["):
        raise DataFileError(file, f"{'.'.join(path)} is not {'a list' if in_list else 'an object'}")
    for at, key in reversed(list(enumerate(path[depth:]))):
        is_list = in_list and at == len(path) - depth - 1
        inner = member.replace("\n", "\n  ")
        member = f'"{key}": ' + (f"[\n  {inner}\n]" if is_list else f"{{\n  {inner}\n}}")
    indent = "  " * (depth + 1)
    empty = next(_members(_blank(text), start), None) is None
    end = f"\n{indent[2:]}" if empty else ","
    return f"{text[: start + 1]}\n{indent}" + member.replace("\n", f"\n{indent}") + end + text[start + 1 :]


def _taken_out(file: Path, text: str, path: Sequence[str], ours: Callable[[str, object], bool]) -> str:
    """Return a text without the members of a container that are ours, nor the containers that are empty then."""
    _parsed(file, text)
    start, depth = _container(file, text, path)
    if depth < len(path):
        return text
    blank = _blank(text)
    members, before, changed = list(_members(blank, start)), start + 1, False
    for at, (key, _, value, end) in enumerate(members):
        if ours(key, json.loads(blank[value:end])):
            following = _next(blank, end, " \t\r\n")
            if blank[following] == ",":
                text = text[:before] + text[following + 1 :]
            else:
                text = text[: before - (at > 0)] + (text[end:] if at else text[following:])
            changed = True
            break
        before = _next(blank, end, " \t\r\n") + 1
    if not changed:
        return text
    if next(_members(_blank(text), start), None) is None and path:
        return _taken_out(file, text, path[:-1], lambda key, _: key == path[-1])
    return _taken_out(file, text, path, ours)


# The work of the hooks.


def hook(
    ctx: typer.Context,
    when: Annotated[HookTime, typer.Argument(metavar="start|end", help="Event of the agent's session.")],
    memory: MemoryPlace,
) -> None:
    """Recall when a session of a coding agent starts, or remember it when it ends.

    A hook of the agent calls it with the event as JSON on standard input; `devmem init --agent` writes such hooks. What
    is remembered of the project goes to standard output. Nothing of a session is stored twice.

    Examples:
        devmem hook start notes.db < event.json
    """
    terminal: Terminal = ctx.obj
    try:
        payload = json.load(sys.stdin)
        done = session_end(memory, payload) if when is HookTime.END else _start(terminal, memory, payload)
    except (DevmemError, ValueError, KeyError) as error:
        terminal.report("error", f"the hook of the session's {when}: {type(error).__name__}: {error}")
        done = 1
    # An agent takes 2 as a command to go on.
    raise typer.Exit(min(done, 1))


def _start(terminal: Terminal, memory: str, payload: Mapping[str, Any]) -> int:
    if Path(memory).exists() and (block := session_start(memory, payload)):
        terminal.print(block)
    return 0


def session_start(memory: str, payload: Mapping[str, Any]) -> str:
    """Return what an agent is told when a session begins: the block of what is remembered of its project."""
    project = Path(str(payload.get("cwd") or (payload.get("workspace_roots") or ["."])[0])).name
    with open_memory(memory) as opened:
        block = opened.context(_ASKED.format(project=project), token_budget=_TOKENS, relevance=False)
    # Cursor takes JSON, the others text.
    is_cursor = payload.get("hook_event_name") == "sessionStart"
    return json.dumps({"additional_context": block}) if is_cursor and block else block


def session_end(memory: str, payload: Mapping[str, Any]) -> int:
    """Remember what is new in the session whose transcript an agent names, and return the exit code."""
    command = [sys.executable, "-m", "devmem", "import", memory, str(payload["transcript_path"])]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode  # noqa: S603 - no shell
