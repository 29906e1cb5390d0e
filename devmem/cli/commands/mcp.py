"""`devmem mcp`: serve a memory to MCP clients; `devmem token`: the tokens of the users of a server over HTTP."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from devmem.cli.app import CONTEXT, help_of
from devmem.cli.commands.agents import HookTime, run_hook
from devmem.cli.failures import usage_errors
from devmem.cli.options import AllUsers, as_typer, checked_name, named_scope
from devmem.cli.targets import (
    JsonTerminal,
    MemoryPlace,
    OptionalStore,
    Session,
    StoreAddress,
    find_store,
    make,
    opened,
    why_empty,
)
from devmem.cli.terminal import Terminal, date_text, zoned
from devmem.errors import CommandError, installed_version
from devmem.memory.memory import Memory
from devmem.memory.scope import ScopeParts
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.items import ANY
from devmem.server import MAX_WORKERS, Allowances, Limits, Token, TokenFile, checked_address
from devmem.text.durations import parse_duration

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
_Workers: TypeAlias = Annotated[
    int, typer.Option(metavar="N", min=1, max=MAX_WORKERS, help="Number of processes behind the port of --http.")
]
_SearchFetch: TypeAlias = Annotated[
    bool, typer.Option("--search-fetch", help="Also offer the tools `search` and `fetch`, which some products require.")
]
_Budget: TypeAlias = Annotated[
    int, typer.Option(metavar="TOKENS", min=200, max=100_000, help="Maximum size of an answer.")
]


def mcp(
    terminal: Terminal,
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
    workers: _Workers = 1,
    budget: _Budget = 2_000,
    hook: Annotated[
        HookTime | None,
        typer.Option(help="Answer a hook of a coding agent instead, whose event is JSON on standard input."),
    ] = None,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Serve a memory to MCP clients, or answer a hook of a coding agent.

    The tools are `recall`, `remember`, `list`, `update`, `forget`, `history` and `undo`. What they reach is fixed by
    the options: no model can name another user. Without `--user` that is unscoped items. A missing file is created.

    With `--tokens` each request reaches the scope of its token. Only then may `--http` name an address that other
    machines can reach, with TLS in a proxy in front of it (`--behind-tls`) or without. Needs the extra `mcp`.

    With `--hook start` or `--hook end`, which `devmem init --agent` writes into the files of a coding agent, it prints
    what is remembered of the project, or remembers the session, and serves nothing. Nothing is stored twice.

    Examples:
        devmem mcp notes.db --user ann --read-only
        devmem mcp team.yaml notes --http 8000
        devmem mcp notes.db --http 8000 --tokens devmem-tokens.json --workers 4
    """
    if hook is not None:
        run_hook(terminal, hook, memory)
    from devmem.adapters.mcp.server import ServerOptions, make_server, serve_socket, serve_stdio
    from devmem.server.connections import fork_workers

    scope = _scope(all_users=all_users, user=user, agent=agent, conversation=conversation)
    file = _checked_tokens(tokens, has_scope=bool(scope), has_address=http is not None)
    place = _checked_place(
        terminal, find_store(terminal, memory, [store] if store else [], session), read_only=read_only
    )
    if workers > 1 and (http is None or not hasattr(os, "fork")):
        raise CommandError("--workers needs --http, and a system that forks processes, which Windows does not.")
    options = ServerOptions(read_only=read_only, budget=budget, search_fetch=search_fetch, version=installed_version())
    with ExitStack() as stack, usage_errors():
        allowances = Allowances(Limits(per_minute=rate), workers=workers)
        host, bound = "", None
        if http is not None:
            host, port = _address(http)
            bound = stack.enter_context(
                checked_address(
                    host.strip("[]"),
                    port,
                    has_tokens=file is not None,
                    is_confirmed=behind_tls or plain_http,
                    allowed=allow_host or (),
                )
            )
            terminal.report("note", f"serving {place.store} at http://{host}:{port}/mcp until Ctrl-C")
        if workers > 1:
            # Before the memory is opened, which each worker does for itself.
            allowances.worker = fork_workers(workers)
            allowances.forget_worker()
        kept = stack.enter_context(opened(terminal, place, save=not read_only))
        if workers > 1 and kept.info().location == ":memory:":
            raise CommandError("--workers needs a file or a database, which the processes have in common.")
        server = make_server(Memory(kept).scoped(**scope) if scope else Memory(kept), options, tokens=file)
        if bound is None:
            serve_stdio(server)
        else:
            name, hosts = host.strip("[]"), tuple(allow_host or ())
            serve_socket(server, bound, name, hosts=hosts, allowances=allowances, is_worker=workers > 1)


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


_File: TypeAlias = Annotated[Path, typer.Option("--tokens", metavar="FILE", help="File of the tokens' hashes.")]
_DEFAULT: Final = Path("devmem-tokens.json")

token = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=CONTEXT,
    help="Make, list and revoke the tokens of a server's users.\n\n\b\nExamples:\n    devmem token add ann",
)


def add(
    terminal: JsonTerminal,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token, and by default of its user.")],
    user: Annotated[str | None, typer.Option(metavar="ID", help="User whose memories it reaches.")] = None,
    unscoped: Annotated[bool, typer.Option("--unscoped", help="Reach unscoped memories.")] = False,
    all_users: Annotated[bool, typer.Option("--all-users", help="Reach everyone's memories.")] = False,
    agent: Annotated[str | None, typer.Option(metavar="ID", help="Reach only this agent's memories.")] = None,
    conversation: Annotated[str | None, typer.Option(metavar="ID", help="Reach only this conversation's.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow no changes.")] = False,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="Refuse it after a time such as 30d.")] = None,
    tokens: _File = _DEFAULT,
) -> None:
    """Make a token and print it.

    It is shown only once; the file keeps only its hash. A running server accepts it from the next request on.

    Examples:
        devmem token add ann
        devmem token add dashboard --all-users --read-only --expires 30d
    """
    if sum((user is not None, unscoped, all_users)) > 1:
        raise CommandError("give only one of --user, --unscoped and --all-users.")
    for option, value in (("NAME", name), ("--user", user), ("--agent", agent), ("--conversation", conversation)):
        if value is not None:
            checked_name(option, value)
    with usage_errors():
        secret = TokenFile(tokens).add(
            name,
            user=None if unscoped or all_users else user or name,
            agent=agent,
            conversation=conversation,
            all_users=all_users,
            read_only=read_only,
            lifetime=None if expires is None else parse_duration(expires),
        )
    terminal.answer({"name": name, "token": secret}, secret)
    terminal.report("note", f"{tokens} keeps only its hash: store it now, it is not shown again")


def list_tokens(terminal: JsonTerminal, tokens: _File = _DEFAULT) -> None:
    """List the tokens, but not their secrets.

    Examples:
        devmem token list
    """
    found = _existing(tokens).tokens()
    forms = [one.model_dump(exclude={"digest"}) for one in found]
    terminal.rows(forms, zoned(("name", "reaches", "may", "created", "expires")), [_row(one) for one in found])


def revoke(
    terminal: Terminal,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")],
    tokens: _File = _DEFAULT,
) -> None:
    """Revoke a token: servers refuse it from the next request on.

    Examples:
        devmem token revoke ann
    """
    with usage_errors():
        _existing(tokens).revoke(name)
    terminal.report("note", f"token {name!r} is revoked")


def _existing(path: Path) -> TokenFile:
    if not path.exists():
        raise CommandError(f"{path} does not exist; `devmem token add NAME` makes it, --tokens names another file.")
    return TokenFile(path)


def _row(one: Token) -> list[str]:
    owner = "everybody" if one.all_users else "unscoped" if one.user is None else f"user {one.user}"
    parts = [f"{part} {value}" for part in ("agent", "conversation") if (value := getattr(one, part)) is not None]
    expires = "never" if one.expires_at is None else date_text(one.expires_at)
    may = "read" if one.read_only else "read, write"
    return [one.name, ", ".join([owner, *parts]), may, date_text(one.created_at), expires]


def _register(name: str, function: Any) -> None:  # noqa: ANN401 - a command of typer
    token.command(name, help=help_of(function), context_settings=CONTEXT)(as_typer(function))


_register("add", add)
_register("list", list_tokens)
_register("revoke", revoke)
