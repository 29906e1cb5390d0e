"""`devmem init --agent` and `devmem hook`: the files of coding agents, and what their hooks do."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases

from .conftest import Devmem

SETTINGS = """\
{
  "permissions": {"allow": ["Bash(make:*)"]},
  "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "echo mine"}]}]}
}
"""
SERVERS = '{"mcpServers": {"tickets": {"command": "tickets", "args": ["--stdio"]}}}'
TOML = '# mine\nmodel = "gpt-5"\n\n[mcp_servers.tickets]\ncommand = "tickets"\n'
SESSION: list[dict[str, Any]] = [
    {"role": "user", "content": "The ferry's launch is on June 2nd."},
    {"role": "assistant", "content": [{"type": "text", "text": "Noted: June 2nd."}]},
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for file, text in (
        (".claude/settings.json", SETTINGS),
        (".mcp.json", SERVERS),
        (".cursor/mcp.json", SERVERS),
        ("home/.codex/config.toml", TOML),
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    return tmp_path / "home"


def files() -> dict[str, Any]:
    texts = {str(file): file.read_text() for file in sorted(Path().rglob("*")) if file.is_file()}
    return {name: text if name.endswith(".toml") else json.loads(text) for name, text in texts.items()}


@pytest.mark.parametrize("agent", ["claude-code", "cursor", "codex"])
def test_what_is_written_is_taken_out_again(devmem: Devmem, agent: str) -> None:
    before = files()
    devmem("init", "notes.db", "--agent", agent)
    written = files()
    assert written != before
    devmem("init", "notes.db", "--agent", agent)
    assert files() == written
    devmem("init", "notes.db", "--agent", agent, "--remove")
    assert files() == before


def test_claude_code_gets_a_server_and_two_hooks_beside_its_own(devmem: Devmem) -> None:
    devmem("init", "notes.db", "--agent", "claude-code")
    servers = json.loads(Path(".mcp.json").read_text())["mcpServers"]
    assert servers["devmem"]["args"] == ["-m", "devmem", "mcp", str(Path("notes.db").resolve())]
    assert servers["tickets"] == {"command": "tickets", "args": ["--stdio"]}
    settings = json.loads(Path(".claude/settings.json").read_text())
    assert settings["permissions"] == {"allow": ["Bash(make:*)"]}
    hooks = settings["hooks"]
    assert hooks["SessionStart"][0]["hooks"][0]["command"].split()[-3:-1] == ["--hook", "start"]
    assert hooks["SessionStart"][1]["hooks"] == [{"type": "command", "command": "echo mine"}]
    assert hooks["SessionEnd"][0]["hooks"][0]["command"].split()[-3:-1] == ["--hook", "end"]


def test_cursor_and_codex_get_theirs(devmem: Devmem, home: Path) -> None:
    for agent in ("cursor", "codex"):
        devmem("init", "notes.db", "--agent", agent)
    cursor = json.loads(Path(".cursor/hooks.json").read_text())
    assert cursor["version"] == 1
    assert "hook start" in cursor["hooks"]["sessionStart"][0]["command"]
    assert json.loads(Path(".cursor/mcp.json").read_text())["mcpServers"].keys() == {"devmem", "tickets"}
    codex = tomllib.loads((home / ".codex/config.toml").read_text())
    assert codex["model"] == "gpt-5"
    assert codex["mcp_servers"].keys() == {"devmem", "tickets"}
    assert json.loads((home / ".codex/hooks.json").read_text())["hooks"].keys() == {"SessionStart", "Stop"}


@pytest.mark.parametrize(
    ("agent", "file", "text", "message"),
    cases("cli_coding_agents", "a_malformed_file_is_refused_and_nothing_is_changed"),
)
def test_a_malformed_file_is_refused_and_nothing_is_changed(
    devmem: Devmem, agent: str, file: str, text: str, message: str
) -> None:
    Path(file).write_text(text)
    output = devmem("init", "notes.db", "--agent", agent, code=2).output
    assert Path(file).name in output
    assert message in output
    assert Path(file).read_text() == text


def test_a_session_is_remembered_once_at_its_end_and_recalled_at_the_next_start(devmem: Devmem) -> None:
    lines = [
        {
            "type": message["role"],
            "uuid": f"u{n}",
            "sessionId": "s1",
            "cwd": "/home/ann/ferry",
            "timestamp": f"2026-11-02T09:00:0{n}Z",
            "message": message,
        }
        for n, message in enumerate(SESSION)
    ]
    Path("s1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    event = json.dumps({"hook_event_name": "SessionEnd", "session_id": "s1", "transcript_path": "s1.jsonl"})
    start = {"hook_event_name": "SessionStart", "cwd": "/home/ann/ferry"}
    assert devmem("mcp", "--hook", "start", "notes.db", stdin=json.dumps(start)).stdout == ""
    for _ in range(2):
        devmem("mcp", "--hook", "end", "notes.db", stdin=event)
    assert json.loads(devmem("count", "notes.db", "--json").stdout)["count"] == 2
    assert "June 2nd" in devmem("mcp", "--hook", "start", "notes.db", stdin=json.dumps(start)).stdout
    cursor = json.dumps({"hook_event_name": "sessionStart", "workspace_roots": ["/home/ann/ferry"]})
    told = json.loads(devmem("mcp", "--hook", "start", "notes.db", stdin=cursor).stdout)
    assert "June 2nd" in told["additional_context"]


def test_a_hook_that_fails_never_ends_with_what_an_agent_takes_for_a_command(devmem: Devmem) -> None:
    """Exit code 2 has an agent go on, or stops it."""
    for payload in ("not JSON", "{}", '{"transcript_path": "missing.jsonl"}'):
        devmem("mcp", "--hook", "end", "notes.db", stdin=payload, code=1)
