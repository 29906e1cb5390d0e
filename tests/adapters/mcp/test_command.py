"""`devmem mcp` as a process that a client starts."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import devmem
from tests.cli.conftest import Devmem
from tests.cli.conftest import devmem as run_devmem

devmem_command = run_devmem


def client_of(*arguments: object) -> Client:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "devmem", "mcp", *map(str, arguments)], env=environment
    )
    return Client(stdio_client(command))


@pytest.mark.slow
def test_servers_on_one_file_lose_nothing_and_see_each_other(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    devmem.open(file, embedding=None).close()
    count = 20

    async def write(client: Client, name: str) -> None:
        for number in range(count):
            result = await client.call_tool("remember", {"text": f"Fact {number} of {name}."})
            assert not result.is_error, result.content

    async def both() -> list[Any]:
        async with client_of(file) as one, client_of(file) as two:
            await asyncio.gather(write(one, "one"), write(two, "two"))
            return [await client.call_tool("list", {"limit": 100}) for client in (one, two)]

    expected = {f"Fact {number} of {name}." for number in range(count) for name in ("one", "two")}
    for seen in asyncio.run(both()):
        assert seen.structured_content["total"] == 2 * count
    with devmem.open(file, embedding=None) as memory:
        assert {record.text for record in memory} == expected
        assert len(memory) == 2 * count


@pytest.mark.kit
def test_a_read_only_server_sees_what_others_write_and_changes_no_byte(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    with devmem.open(file, embedding=None) as memory:
        memory.add("The venue is booked.")

    async def best(client: Client, query: str) -> Any:
        result = await client.call_tool("recall", {"query": query})
        await client.call_tool("list", {})
        await client.list_resources()
        return result.structured_content["memories"][0]["text"]

    async def talk() -> None:
        async with client_of(file, "--read-only") as reader:
            before = file.read_bytes()
            assert await best(reader, "venue") == "The venue is booked."
            refused = await reader.call_tool("remember", {"text": "No."})
            assert refused.is_error
            assert file.read_bytes() == before
            async with client_of(file) as writer:
                await writer.call_tool("remember", {"text": "The launch is in June."})
                assert await best(reader, "launch") == "The launch is in June."

    asyncio.run(talk())
    with devmem.open(file, embedding=None) as memory:
        assert len(memory) == 2


def test_the_scope_is_that_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    with devmem.open(file, embedding=None) as memory:
        memory.add("Bob's secret.", user="bob")

    async def talk() -> Any:
        async with client_of(file, "--user", "ann") as client:
            await client.call_tool("remember", {"text": "Ann's secret."})
            return await client.call_tool("recall", {"query": "secret"})

    assert [each["text"] for each in asyncio.run(talk()).structured_content["memories"]] == ["Ann's secret."]
    with devmem.open(file, embedding=None) as memory:
        assert memory.count(user="ann") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--user", ""], "empty"),
        (["--user", "ann", "--all-users"], "not both"),
        (["--http", "web"], "PORT"),
        (["--http", "0.0.0.0:8000"], "proxy"),
        (["--read-only"], "does not exist yet"),
    ],
)
def test_a_command_that_cannot_be_carried_out_says_why(
    devmem_command: Devmem, tmp_path: Path, arguments: list[str], words: str
) -> None:
    assert words in devmem_command("mcp", tmp_path / "notes.db", *arguments, code=2).output
