"""The pages about a server: its tokens, its requests and what it answers."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import urllib.request
from pathlib import Path

import pytest

from .blocks import ROOT, Fence, assert_printed, fences_of, free_port, run_module, serving

SERVER = ROOT / "docs/server.md"
CONTAINER = ROOT / "docs/container.md"
_IN_CONTAINER = re.compile(r"docker (?:compose run --rm --no-deps memory|run --rm -v devmem:/data devmem) ")


def _consoles(page: Path) -> list[Fence]:
    return [fence for fence in fences_of(page) if fence.info == "console"]


def _asked(command: str, port: str, token: str) -> str:
    """Send the request of a `curl` command, and return the answer."""
    _, *words = shlex.split(command)
    url = next(word for word in words if word.startswith("http")).replace(":8000", f":{port}")
    headers = [value.replace("$DEVMEM_TOKEN", token) for name, value in itertools.pairwise(words) if name == "-H"]
    body = next((value for name, value in itertools.pairwise(words) if name == "-d"), None)
    request = urllib.request.Request(
        url, body.encode() if body else None, dict(header.split(": ", 1) for header in headers)
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


def test_the_server_answers_as_on_its_page(tmp_path: Path) -> None:
    start, requests, elsewhere = _consoles(SERVER)
    *tokens, (serve, _) = start.commands()
    printed = [run_module("devmem", shlex.split(command)[1:], tmp_path).checked() for command, _ in tokens]
    for text, (_, told) in zip(printed, tokens, strict=True):
        assert_printed(text, told)
    port = free_port()
    with serving(shlex.split(serve.replace(" 8000", f" {port}"))[1:], tmp_path, "://"):
        for command, told in requests.commands():
            assert_printed(_asked(command, port, printed[0].strip()), told)
    ((serve, _),) = elsewhere.commands()
    with serving(shlex.split(serve.replace("10.0.0.5:8000", f"127.0.0.1:{port}"))[1:], tmp_path, "://"):
        pass


def test_the_commands_in_a_container_print_what_its_page_shows(tmp_path: Path) -> None:
    """`make container` runs them in a container where there is an engine."""
    token = ""
    for fence in _consoles(CONTAINER):
        for command, told in fence.commands():
            if _IN_CONTAINER.match(command):
                run = run_module(
                    "devmem", [*shlex.split(_IN_CONTAINER.sub("", command)), "--tokens", f"{fence.line}"], tmp_path
                )
                assert_printed(run.checked(), told)
                token = token or run.out.strip()
    ((curl, told),) = [
        each for fence in _consoles(CONTAINER) for each in fence.commands() if each[0].startswith("curl")
    ]
    port, tokens = free_port(), str(_consoles(CONTAINER)[0].line)
    with serving(["mcp", "memory.db", "--http", port, "--tokens", tokens], tmp_path, "://"):
        assert_printed(_asked(curl, port, token), told)


@pytest.mark.parametrize(
    "fence",
    [
        fence
        for page in (SERVER, *ROOT.glob("docs/**/mcp.md"), *ROOT.glob("docs/**/editor.md"))
        for fence in fences_of(page)
        if fence.info == "json"
    ],
    ids=str,
)
def test_a_host_starts_the_server_that_its_settings_name(fence: Fence, tmp_path: Path) -> None:
    ((server,),) = [list(servers.values()) for servers in json.loads(fence.code).values()]
    if "url" in server:
        assert server["url"] == "http://127.0.0.1:8000/mcp"
    else:
        words = [word.replace("/home/ann", str(tmp_path)) for word in server["args"]]
        assert server["command"] == "devmem"
        assert run_module("devmem", words, tmp_path).checked() == ""
