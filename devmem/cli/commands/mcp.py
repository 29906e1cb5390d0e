"""`devmem mcp`: serve a memory to MCP clients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from devmem.cli.failures import CommandError, usage_errors
from devmem.cli.options import AllUsers, named_scope
from devmem.cli.targets import MemoryPlace, OptionalStore, Session, StoreAddress, find_store, make, opened, why_empty
from devmem.cli.terminal import Terminal
from devmem.errors import installed_version
from devmem.memory.memory import Memory
from devmem.memory.scope import ScopeParts
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.items import ANY
from devmem.server import Limits, TokenFile

if TYPE_CHECKING:
    from devmem.adapters.mcp.server import ServerOptions

_DEFAULT_HOST = "127.0.0.1"
_User: TypeAlias = Annotated[str | None, typer.Option(metavar="ID", help="Reach only this user's items.")]
_Agent: TypeAlias = Annotated[str | None, typer.Option(metavar="ID", help="Reach only this agent's items.")]
_Conversation: TypeAlias = Annotated[
    str | None, typer.Option(metavar="ID", help="Reach only items of this conversation.")
]
_ReadOnly: TypeAlias = Annotated[bool, typer.Option("--read-only", help="Offer only the tools that change nothing.")]
_Http: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="[HOST:]PORT", help="Serve over HTTP at /mcp; otherwise over standard input and output."),
]
_Tokens: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Answer only requests with one of these tokens, see `devmem token`."),
]
_AllowHost: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Additional name by which clients reach the server.")
]
_BehindTls: TypeAlias = Annotated[
    bool, typer.Option("--behind-tls", help="Confirm that a proxy in front of the server terminates TLS.")
]
_PlainHttp: TypeAlias = Annotated[
    bool, typer.Option("--plain-http", help="Accept that tokens and memories cross the network unencrypted.")
]
_Rate: TypeAlias = Annotated[
    int, typer.Option(metavar="N", min=1, help="Maximum number of requests per token and minute.")
]
_SearchFetch: TypeAlias = Annotated[
    bool, typer.Option("--search-fetch", help="Also offer the tools `search` and `fetch`, which some products require.")
]
_Budget: TypeAlias = Annotated[
    int, typer.Option(metavar="TOKENS", min=200, max=100_000, help="Maximum size of an answer.")
]


def mcp(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    user: _User = None,
    agent: _Agent = None,
    conversation: _Conversation = None,
    all_users: AllUsers = False,
    read_only: _ReadOnly = False,
    search_fetch: _SearchFetch = False,
    http: _Http = None,
    tokens: _Tokens = None,
    allow_host: _AllowHost = None,
    behind_tls: _BehindTls = False,
    plain_http: _PlainHttp = False,
    rate: _Rate = 600,
    budget: _Budget = 2_000,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Serve a memory to MCP clients.

    The tools are `recall`, `remember`, `list`, `update`, `forget`, `history` and `undo`. What they reach is fixed by
    the options: no model can name another user. Without `--user` that is unscoped items. A missing file is created.

    With `--tokens` each request reaches the scope of its token. Only then may `--http` name an address that other
    machines can reach, with TLS in a proxy in front of it (`--behind-tls`) or without (`--plain-http`).

    Several servers and other processes may use one file at once. Needs the extra `mcp`.

    Examples:
        devmem mcp notes.db --user ann --read-only
        devmem mcp team.yaml notes --http 8000
        devmem mcp notes.db --http 8000 --tokens devmem-tokens.json
    """
    from devmem.adapters.mcp.server import ServerOptions

    scope = _scope(all_users=all_users, user=user, agent=agent, conversation=conversation)
    is_confirmed = behind_tls or plain_http
    address = None if http is None else _Address(*_address(http), tuple(allow_host or ()), is_confirmed, rate)
    file = _checked_tokens(tokens, has_scope=bool(scope), has_address=address is not None)
    place = _checked_place(ctx.obj, find_store(ctx.obj, memory, store, session), read_only=read_only)
    with opened(ctx.obj, place, save=not read_only) as kept, usage_errors():
        handle = Memory(kept).scoped(**scope) if scope else Memory(kept)
        options = ServerOptions(read_only=read_only, budget=budget, search_fetch=search_fetch)
        _serve(ctx.obj, handle, replace(options, version=installed_version()), address, file)


@dataclass(frozen=True, slots=True)
class _Address:
    host: str
    port: int
    hosts: tuple[str, ...]
    is_confirmed: bool
    rate: int


def _checked_tokens(tokens: Path | None, *, has_scope: bool, has_address: bool) -> TokenFile | None:
    if tokens is None:
        return None
    if not has_address:
        raise CommandError("--tokens needs --http; over standard input and output there is one client, see --user.")
    if has_scope:
        raise CommandError("give either --tokens or a scope; with --tokens each token has its own.")
    file = TokenFile(tokens)
    if not tokens.exists():
        raise CommandError(f"{tokens} does not exist; make a token first: devmem token add NAME --tokens {tokens}")
    if not file.tokens():
        raise CommandError(f"{tokens} has no token; make one first: devmem token add NAME --tokens {tokens}")
    return file


def _serve(
    terminal: Terminal, memory: Memory, options: ServerOptions, address: _Address | None, tokens: TokenFile | None
) -> None:
    from devmem.adapters.mcp.server import make_server, serve_http, serve_stdio

    server = make_server(memory, options, tokens=tokens)
    if address is None:
        serve_stdio(server)
        return
    note = f"serving {memory.store.name} at http://{address.host}:{address.port}/mcp until Ctrl-C"
    serve_http(
        server,
        host=address.host.strip("[]"),
        port=address.port,
        hosts=address.hosts,
        is_confirmed=address.is_confirmed,
        limits=Limits(per_minute=address.rate),
        ready=lambda: terminal.report("note", note),
    )


def _scope(*, all_users: bool, **parts: str | None) -> ScopeParts:
    named = named_scope(**parts)
    if all_users and "user" in named:
        raise CommandError("give either --user or --all-users, not both.")
    scope: ScopeParts = {}
    scope.update(named)  # type: ignore[typeddict-item]
    if all_users:
        scope["user"] = ANY
    return scope


def _checked_place(terminal: Terminal, place: StoreAddress, *, read_only: bool) -> StoreAddress:
    """Report a memory that is empty for a reason; raise `CommandError` where nothing could ever be read."""
    reason = why_empty(make(place))
    if reason is not None and read_only:
        raise CommandError(f"{reason}; there is nothing to serve read-only.")
    if reason is not None:
        terminal.report("note", reason)
    return place


def _address(http: str) -> tuple[str, int]:
    host, _, port = http.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise CommandError(f"--http {http!r}: expected PORT or HOST:PORT, such as 8000.")
    return host or _DEFAULT_HOST, int(port)
