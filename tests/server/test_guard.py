"""A server of a team: which requests it answers, and whose."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from devmem.adapters.mcp import ServerOptions
from devmem.server import Guard, Limits, TokenFile, checked_address
from devmem.testing import FailingEmbedder

from .conftest import Team, serving_team

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "curl", "version": "1"}},
}


def test_without_a_token_nothing_is_answered(team: Team) -> None:
    for headers in (
        {},
        {"authorization": "Bearer"},
        {"authorization": "Bearer devmem_" + "A" * 43},
        {"authorization": f"Basic {team.secrets['ann']}"},
        {"authorization": team.secrets["ann"]},
    ):
        for path in ("/mcp", "/elsewhere"):
            answer = team.request("POST", path, json=PING, headers={**ACCEPT, **headers})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
    assert team.request("POST", "/mcp", json=INITIALIZE, headers=ACCEPT, user="ann").status_code == 200


def test_an_expired_and_a_revoked_token_are_refused_at_once(team: Team) -> None:
    team.secrets["bob"] = team.tokens.add("bob", user="bob", lifetime=60)
    assert team.request("POST", "/mcp", json=INITIALIZE, headers=ACCEPT, user="bob").status_code == 200
    team.clock.now += 61
    assert team.request("POST", "/mcp", json=INITIALIZE, headers=ACCEPT, user="bob").status_code == 401
    team.tokens.revoke("ann")
    assert team.request("POST", "/mcp", json=INITIALIZE, headers=ACCEPT, user="ann").status_code == 401


def test_a_file_of_tokens_that_is_damaged_lets_nobody_in(team: Team) -> None:
    team.tokens.path.write_text("{}garbage")
    assert team.request("POST", "/mcp", json=INITIALIZE, headers=ACCEPT, user="ann").status_code == 503


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:8000"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "localhost@evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost.evil.example"}, 403),
        ({"origin": "http://localhost:5173"}, 200),
        ({"host": "localhost"}, 200),
    ],
)
def test_a_name_that_was_rebound_is_refused_even_with_a_token(team: Team, headers: dict[str, str], status: int) -> None:
    answer = team.request("POST", "/mcp", json=INITIALIZE, headers={**ACCEPT, **headers}, user="ann")
    assert answer.status_code == status


def test_no_id_uri_or_argument_reaches_what_is_anothers(team: Team) -> None:
    async def talk() -> None:
        async with team.mcp("ann") as ann, team.mcp("bob") as bob:
            stored = await bob.call_tool("remember", {"text": "Bob's secret is cinnamon."})
            bobs = stored.structured_content["id"]
            assert (await ann.call_tool("recall", {"query": "secret cinnamon"})).structured_content["memories"] == []
            assert (await ann.call_tool("list", {})).structured_content["total"] == 0
            for name, arguments in (
                ("update", {"id": bobs, "text": "mine"}),
                ("forget", {"ids": [bobs]}),
                ("history", {"id": bobs}),
                ("undo", {"id": bobs}),
                ("recall", {"query": "secret", "user": "bob"}),
                ("remember", {"text": "forged", "scope": {"user": "bob"}}),
            ):
                assert (await ann.call_tool(name, arguments)).is_error, name
            assert (await ann.list_resources()).resources == []
            with pytest.raises(MCPError):
                await ann.read_resource(f"memory://items/{bobs}")
            assert (await bob.read_resource(f"memory://items/{bobs}")).contents

    asyncio.run(talk())
    assert [record.text for record in team.memory.list(user="bob")] == ["Bob's secret is cinnamon."]


def test_the_session_of_another_token_is_not_taken_up(team: Team) -> None:
    opened = team.request("POST", "/mcp", json=INITIALIZE, headers=ACCEPT, user="ann")
    session = {"mcp-session-id": opened.headers["mcp-session-id"], **ACCEPT}
    assert team.request("POST", "/mcp", json=PING, headers=session, user="ann").status_code == 200
    assert team.request("POST", "/mcp", json=PING, headers=session, user="bob").status_code == 404
    assert team.request("DELETE", "/mcp", headers=session, user="bob").status_code == 404


def test_requests_that_are_too_large_or_too_many_are_refused(tmp_path: Path) -> None:
    with serving_team(tmp_path, ServerOptions(), Limits(body=1_000, per_minute=3)) as team:
        large = b"x" * 1_001
        assert team.request("POST", "/mcp", content=large, headers=ACCEPT, user="ann").status_code == 413
        for path, user in (("/mcp", "ann"), ("/v1/search", "carl")):
            parts = (large[at : at + 100] for at in range(0, 1_001, 100))
            assert team.request("POST", path, content=parts, headers=ACCEPT, user=user).status_code == 413
        assert team.request("POST", "/mcp", json=INITIALIZE, headers=ACCEPT, user="ann").status_code == 200
        refused = team.request("POST", "/mcp", json=INITIALIZE, headers=ACCEPT, user="ann")
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        assert team.request("POST", "/mcp", json=INITIALIZE, headers=ACCEPT, user="bob").status_code == 200


def test_a_token_has_so_many_requests_in_progress(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    secrets = {user: tokens.add(user, user=user) for user in ("ann", "bob")}
    released = asyncio.Event()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await released.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    guard = Guard(app, tokens=tokens, limits=Limits(at_once=2))

    async def asked(user: str) -> int:
        sent: list[Any] = []

        async def receive() -> Any:
            raise AssertionError

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {secrets[user]}".encode())]
        await guard({"type": "http", "method": "GET", "path": "/", "headers": headers}, receive, send)
        return int(sent[0]["status"])

    async def run() -> list[int]:
        waiting = {asyncio.create_task(asked("ann")) for _ in range(3)}
        refused, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        other = asyncio.create_task(asked("bob"))
        released.set()
        answered = await asyncio.gather(*waiting, other)
        return [*(task.result() for task in refused), *answered, await asked("ann")]

    assert asyncio.run(asyncio.wait_for(run(), 30)) == [429, 200, 200, 200, 200]


def test_no_log_message_goes_to_a_holder_of_a_token(tmp_path: Path) -> None:
    """It may be about what another user stored."""
    got: list[object] = []

    async def logged(message: object) -> None:
        got.append(message)

    async def talk(team: Team) -> None:
        async with team.mcp("ann", logging_callback=logged, log_level="info") as ann:
            assert not (await ann.call_tool("remember", {"text": "It rains."})).is_error

    with serving_team(tmp_path, embedding=FailingEmbedder()) as team:
        asyncio.run(talk(team))
        assert team.memory.store.info().waiting == 1
    assert got == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"host": "192.0.2.1"}, "--add-token"),
        ({"host": "192.0.2.1", "has_tokens": True}, "--plain-http"),
        ({"host": "0.0.0.0", "has_tokens": True, "is_confirmed": True}, "--allow-host"),
        ({"host": "::", "has_tokens": True, "is_confirmed": True}, "--allow-host"),
    ],
)
def test_an_address_of_others_needs_tokens_and_a_confirmation(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        checked_address(port=0, **arguments)  # type: ignore[arg-type]


def test_an_address_of_others_is_bound_when_it_is_confirmed() -> None:
    names = ["memory.example.org"]
    with checked_address("0.0.0.0", 0, has_tokens=True, is_confirmed=True, allowed=names) as bound:
        assert isinstance(bound, socket.socket)


def test_a_client_that_leaves_before_its_request_is_complete_calls_nothing() -> None:
    """An application would report that it cannot read the rest, an error for each such client."""

    async def app(*_: Any) -> None:
        raise AssertionError

    async def run() -> None:
        parts = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

        async def receive() -> Any:
            return next(parts)

        scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"host", b"localhost")]}
        await Guard(app)(scope, receive, app)

    asyncio.run(run())
