"""The MCP entry and the hooks of coding agents for `devmem init --agent`, and their work for `devmem mcp --hook`.

Taking an entry out leaves what else a file holds.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import typer

from devmem.cli.terminal import Terminal
from devmem.errors import DataFileError, DevmemError
from devmem.memory.opening import open as open_memory
from devmem.text.files import replace_file


class Agent(StrEnum):
    """Coding agents whose files are known."""

    CLAUDE_CODE = "claude-code"
    CURSOR = "cursor"
    CODEX = "codex"


NAME: Final = "devmem"
"""Name of the server in an agent's file."""
_HOOK: Final = " -m devmem mcp --hook "
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

    hooks = {"SessionStart": [claude("start")], "SessionEnd": [claude("end")]}
    entries: Mapping[Agent, Mapping[Path, Mapping[str, Any]]] = {
        Agent.CLAUDE_CODE: {
            project / ".mcp.json": {"mcpServers": {NAME: server}},
            project / ".claude/settings.json": {"hooks": hooks},
        },
        Agent.CURSOR: {
            project / ".cursor/mcp.json": {"mcpServers": {NAME: server}},
            project / ".cursor/hooks.json": {"version": 1, "hooks": {"sessionStart": [hook("start")]}},
        },
        Agent.CODEX: {
            home / ".codex/hooks.json": {"hooks": {"SessionStart": [claude("start")], "Stop": [claude("end")]}},
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


def _edited(file: Path, text: str, entries: Mapping[str, Any], *, remove: bool) -> str:
    """Return the JSON text of a file with the entries, or without them; empty where nothing else is left."""
    found, before = _object(file, text), _object(file, text)
    for key, members in entries.items():
        if not isinstance(members, dict):
            # The version of a file of hooks.
            found = {key: members, **found} if not remove else found
            continue
        held = found.setdefault(key, {})
        if not isinstance(held, dict):
            raise DataFileError(file, f"{key} is not an object, and the file was not changed")
        for name, own in members.items():
            kept = None if remove else own
            if isinstance(own, list):
                others = held.get(name, [])
                if not isinstance(others, list):
                    raise DataFileError(file, f"{key}.{name} is not a list, and the file was not changed")
                kept = [*(kept or ()), *(one for one in others if _HOOK not in json.dumps(one))]
            if kept:
                held[name] = kept
            else:
                held.pop(name, None)
        if not held:
            del found[key]
    if remove and found in ({}, {"version": 1}):
        return ""
    return text if found == before else json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _object(file: Path, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise DataFileError(file, f"it is not JSON, and was not changed: {error}") from error
    if not isinstance(found, dict):
        raise DataFileError(file, f"it holds a {type(found).__name__}, not an object, and was not changed")
    return found


class HookTime(StrEnum):
    """When a hook is called."""

    START = "start"
    END = "end"


def run_hook(terminal: Terminal, when: HookTime, memory: str) -> None:
    """Recall when a session of a coding agent starts, or remember it when it ends; the event is JSON on stdin."""
    done = 0
    try:
        payload = json.load(sys.stdin)
        if when is HookTime.END:
            # Nothing is stored twice, so the whole transcript is given each time.
            command = [sys.executable, "-m", "devmem", "import", memory, str(payload["transcript_path"])]
            done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode  # noqa: S603 - no shell
        elif Path(memory).exists() and (block := _recalled(memory, payload)):
            terminal.print(block)
    except (DevmemError, ValueError, KeyError) as error:
        terminal.report("error", f"the hook of the session's {when}: {type(error).__name__}: {error}")
        done = 1
    # An agent takes 2 as a command to go on.
    raise typer.Exit(min(done, 1))


def _recalled(memory: str, payload: Mapping[str, Any]) -> str:
    """Return what an agent is told when a session begins: the block of what is remembered of its project."""
    project = Path(str(payload.get("cwd") or (payload.get("workspace_roots") or ["."])[0])).name
    with open_memory(memory) as opened:
        block = opened.context(_ASKED.format(project=project), token_budget=_TOKENS, relevance=False)
    # Cursor takes JSON, the others text.
    is_cursor = payload.get("hook_event_name") == "sessionStart"
    return json.dumps({"additional_context": block}) if is_cursor and block else block
