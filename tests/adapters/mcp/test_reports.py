"""A server reports progress and log messages of a call, and changes that clients subscribed to."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, types
from mcp.shared.exceptions import MCPDeprecationWarning

import devmem
from devmem.adapters.mcp import make_server
from devmem.adapters.mcp.reports import uri_of
from devmem.testing import FailingEmbedder, HashEmbedder

WAIT = 20
"""Seconds after which a report that does not come is a failure."""
MODES = ["legacy", "2026-07-28"]


class WaitingEmbedder(HashEmbedder):
    """Embeds when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def embed(self, texts: Any) -> Any:
        assert self.go.wait(WAIT)
        return super().embed(texts)


@pytest.mark.parametrize("mode", MODES)
def test_a_long_call_reports_that_it_is_at_work(mode: Any) -> None:
    embedder = WaitingEmbedder()
    reported: list[tuple[float, str | None]] = []

    async def noted(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        reported.append((progress, message))
        if len(reported) == 2:
            embedder.go.set()

    async def run(memory: devmem.Memory) -> None:
        async with Client(make_server(memory), mode=mode) as client:
            result = await client.call_tool("remember", {"text": "It rains."}, progress_callback=noted)
            assert not result.is_error

    with devmem.open(":memory:", embedding=embedder) as memory:
        asyncio.run(run(memory))
    (first, message), (second, _) = reported[:2]
    assert 0 < first < second
    assert message == "Remember: still at work"


@pytest.mark.parametrize(
    ("mode", "level", "expected"),
    [
        ("legacy", None, ["warning"]),
        ("legacy", "error", []),
        ("2026-07-28", "info", ["warning"]),
        ("2026-07-28", None, []),
    ],
)
def test_a_client_gets_the_log_messages_that_it_takes(mode: Any, level: Any, expected: list[str]) -> None:
    got: list[types.LoggingMessageNotificationParams] = []

    async def logged(params: types.LoggingMessageNotificationParams) -> None:
        got.append(params)

    async def run(memory: devmem.Memory) -> None:
        options: dict[str, Any] = {"log_level": level} if mode != "legacy" else {}
        async with Client(make_server(memory), mode=mode, logging_callback=logged, **options) as client:
            if mode == "legacy" and level:
                with pytest.warns(MCPDeprecationWarning):
                    await client.set_logging_level(level)
            assert not (await client.call_tool("remember", {"text": "It rains."})).is_error

    with devmem.open(":memory:", embedding=FailingEmbedder()) as memory:
        asyncio.run(run(memory))
    assert [message.level for message in got] == expected
    assert all("embedding" in str(message.data) and str(message.logger).startswith("devmem.") for message in got)


def test_warnings_still_reach_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    program = (
        "import devmem, logging\n"
        "from devmem.adapters.mcp import make_server\n"
        "m = devmem.open(':memory:', embedding=None)\n"
        "make_server(m)\n"
        "logging.getLogger('devmem.x').warning('of a kind')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert capfd.readouterr().err.count("of a kind") == 1


@asynccontextmanager
async def changes(memory: devmem.Memory, *uris: str, listed: bool = False) -> AsyncIterator[AsyncIterator[Any]]:
    async with (
        Client(make_server(memory), mode="2026-07-28") as client,
        client.listen(resources_list_changed=listed, resource_subscriptions=uris) as events,
    ):
        yield aiter(events)


def test_a_listening_client_hears_of_changes_by_anybody(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory, devmem.open(tmp_path / "notes.db") as other:
        item_id = memory.add("The launch is in May.")

        async def run() -> None:
            async with changes(memory, uri_of(item_id), listed=True) as events:
                other.update(item_id, "The launch is in June.")
                heard = await asyncio.wait_for(anext(events), WAIT)
                assert (type(heard).__name__, heard.uri) == ("ResourceUpdated", uri_of(item_id))
                other.add("Somebody bought snacks.")
                assert type(await asyncio.wait_for(anext(events), WAIT)).__name__ == "ResourcesListChanged"

        asyncio.run(run())


async def test_nobody_hears_of_what_is_another_users(memory: devmem.Memory) -> None:
    ann, bob = memory.scoped(user="ann"), memory.scoped(user="bob")
    hers, his = ann.add("Ann's note."), bob.add("Bob's note.")
    async with changes(bob, uri_of(hers), uri_of(his), listed=True) as events:
        ann.update(hers, "Ann's other note.")
        ann.add("A third note of Ann's.")
        bob.update(his, "Bob's other note.")
        assert (await asyncio.wait_for(anext(events), WAIT)).uri == uri_of(his)


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_a_client_of_an_earlier_revision_subscribes_to_memories(memory: devmem.Memory) -> None:
    first, second = memory.add("The launch is in May."), memory.add("The budget is open.")
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def handle(message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.put_nowait(str(message.params.uri))

    async with Client(make_server(memory), mode="legacy", message_handler=handle) as client:
        await client.subscribe_resource(uri_of(first))
        await client.subscribe_resource(uri_of(second))
        await client.unsubscribe_resource(uri_of(first))
        memory.update(first, "The launch is in June.")
        memory.forget(second)
        assert await asyncio.wait_for(heard.get(), WAIT) == uri_of(second)


def test_nobody_watches_everything(memory: devmem.Memory) -> None:
    async def run() -> None:
        async with changes(memory, *(uri_of(str(number)) for number in range(101))):
            raise AssertionError

    with pytest.raises((MCPError, ExceptionGroup)) as raised:
        asyncio.run(run())
    assert raised.group_contains(MCPError, match="too many") if isinstance(raised.value, ExceptionGroup) else True
