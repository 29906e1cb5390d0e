"""`devmem mcp`: serve a memory to MCP clients, and manage the tokens of those who reach it over HTTP."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from devmem.cli.commands.agents import HookTime, run_hook
from devmem.cli.failures import usage_errors
from devmem.cli.options import AllUsers, checked_name, named_scope
from devmem.cli.targets import (
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

if TYPE_CHECKING:
    from devmem.adapters.mcp.server import ServerOptions

_DEFAULT_HOST: Final = "127.0.0.1"
_DEFAULT_TOKENS: Final = Path("devmem-tokens.json")


def mcp(
    terminal: Annotated[Terminal, typer.Option("--json", help="With --add-token or --list-tokens: print JSON.")],
    memory: Annotated[
        str | None,
        typer.Argument(metavar="MEMORY", help="A file, a workflow, or a store of one; not needed to manage tokens."),
    ] = None,
    store: OptionalStore = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Reach only this user's items.")] = None,
    agent: Annotated[str | None, typer.Option(metavar="ID", help="Reach only this agent's items.")] = None,
    conversation: Annotated[
        str | None, typer.Option(metavar="ID", help="Reach only items of this conversation.")
    ] = None,
    all_users: AllUsers = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer only the tools that change nothing.")] = False,
    search_fetch: Annotated[
        bool,
        typer.Option("--search-fetch", help="Also offer the tools `search` and `fetch`, which some products require."),
    ] = False,
    http: Annotated[
        str | None,
        typer.Option(metavar="[HOST:]PORT", help="Serve over HTTP at /mcp; otherwise over standard input and output."),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Answer only requests with one of the tokens that --add-token puts here."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Additional name by which clients reach the server.")
    ] = None,
    behind_tls: Annotated[
        bool, typer.Option("--behind-tls", help="Confirm that a proxy in front of the server terminates TLS.")
    ] = False,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Accept that tokens and memories cross the network unencrypted.")
    ] = False,
    rate: Annotated[
        int, typer.Option(metavar="N", min=1, help="Maximum number of requests per token and minute.")
    ] = 600,
    workers: Annotated[
        int, typer.Option(metavar="N", min=1, max=MAX_WORKERS, help="Number of processes behind the port of --http.")
    ] = 1,
    budget: Annotated[
        int, typer.Option(metavar="TOKENS", min=200, max=100_000, help="Maximum size of an answer.")
    ] = 2_000,
    add_token: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Make a token, by default for the user of this name, and print it instead."),
    ] = None,
    unscoped: Annotated[bool, typer.Option("--unscoped", help="With --add-token: reach unscoped items.")] = False,
    expires: Annotated[
        str | None, typer.Option(metavar="DURATION", help="With --add-token: refuse it after a time such as 30d.")
    ] = None,
    list_tokens: Annotated[bool, typer.Option("--list-tokens", help="List the tokens, not their secrets.")] = False,
    revoke_token: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Revoke a token instead: servers refuse it from the next request on."),
    ] = None,
    hook: Annotated[
        HookTime | None,
        typer.Option(help="Answer a hook of a coding agent instead, whose event is JSON on standard input."),
    ] = None,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Serve a memory to MCP clients, or answer a hook of a coding agent.

    The tools are `recall`, `remember`, `list`, `update`, `forget`, `history` and `undo`. What they reach is fixed by
    the options: no model can name another user. Without `--user`, only unscoped items are reached. A missing file is
    created.

    With `--tokens` each request reaches the scope of its token. Only then may `--http` name an address that other
    machines can reach, with TLS in a proxy in front of it (`--behind-tls`) or without. Needs the extra `mcp`.

    `--add-token` prints a new token with the scope of the options; the file (devmem-tokens.json, or that of `--tokens`)
    keeps only its hash. A running server accepts it from the next request on.

    With `--hook start` or `--hook end`, which `devmem init --agent` writes into the files of a coding agent, it prints
    what is remembered of the project, or remembers the session, and serves nothing. Nothing is stored twice.

    Examples:
        devmem mcp notes.db --user ann --read-only
        devmem mcp team.yaml notes --http 8000
        devmem mcp --add-token ann --expires 30d
        devmem mcp notes.db --http 8000 --tokens devmem-tokens.json --workers 4
    """
    if add_token is None and (unscoped or expires is not None):
        raise CommandError("--unscoped and --expires require --add-token.")
    if list_tokens or add_token is not None or revoke_token is not None:
        if memory is not None or sum((list_tokens, add_token is not None, revoke_token is not None)) > 1:
            raise CommandError("--add-token, --list-tokens and --revoke-token serve no memory; give one of them alone.")
        _manage_tokens(
            terminal,
            TokenFile(tokens or _DEFAULT_TOKENS),
            add_token,
            revoke_token,
            named_scope(user=user, agent=agent, conversation=conversation),
            expires,
            unscoped=unscoped,
            all_users=all_users,
            read_only=read_only,
        )
        return
    if memory is None:
        raise CommandError("name the memory to serve: devmem mcp MEMORY.")
    if hook is not None:
        run_hook(terminal, hook, memory)
    scope = _scope(all_users=all_users, user=user, agent=agent, conversation=conversation)
    file = _checked_tokens(tokens, has_scope=bool(scope), has_address=http is not None)
    place = find_store(terminal, memory, [store] if store else [], session)
    if (reason := why_empty(make(place))) is not None:
        if read_only:
            raise CommandError(f"{reason}; there is nothing to serve read-only.")
        terminal.report("note", reason)
    if workers > 1 and (http is None or not hasattr(os, "fork")):
        raise CommandError("--workers needs --http, and a system that forks processes, which Windows does not.")
    from devmem.adapters.mcp.server import ServerOptions

    options = ServerOptions(read_only=read_only, budget=budget, search_fetch=search_fetch, version=installed_version())
    allowances = Allowances(Limits(per_minute=rate), workers=workers)
    _serve(terminal, place, scope, options, file, http, allow_host or (), behind_tls or plain_http, allowances, workers)


def _serve(
    terminal: Terminal,
    place: StoreAddress,
    scope: ScopeParts,
    options: ServerOptions,
    tokens: TokenFile | None,
    http: str | None,
    names: Sequence[str],
    is_confirmed: bool,
    allowances: Allowances,
    workers: int,
) -> None:
    """Serve a memory over standard input and output, or over HTTP, until the client or the user ends it."""
    from devmem.adapters.mcp.server import make_server, serve_http, serve_stdio
    from devmem.server.connections import fork_workers

    with ExitStack() as stack, usage_errors():
        host, bound = "", None
        if http is not None:
            host, _, port = http.rpartition(":")
            if not port.isdecimal() or not 0 < int(port) < 65_536:
                raise CommandError(f"--http {http!r}: expected PORT or HOST:PORT, such as 8000.")
            host = host or _DEFAULT_HOST
            listener = checked_address(
                host.strip("[]"), int(port), has_tokens=tokens is not None, is_confirmed=is_confirmed, allowed=names
            )
            bound = stack.enter_context(listener)
            terminal.report("note", f"serving {place.store} at http://{host}:{port}/mcp until Ctrl-C")
        if workers > 1:
            # Before the memory is opened, which each worker does for itself.
            allowances.worker = fork_workers(workers)
            allowances.forget_worker()
        kept = stack.enter_context(opened(terminal, place, save=not options.read_only))
        if workers > 1 and kept.info().location == ":memory:":
            raise CommandError("--workers needs a file or a database, which the processes have in common.")
        server = make_server(Memory(kept).scoped(**scope) if scope else Memory(kept), options, tokens=tokens)
        if bound is None:
            serve_stdio(server)
        else:
            serve_http(
                server, bound, host.strip("[]"), hosts=tuple(names), allowances=allowances, is_worker=workers > 1
            )


def _checked_tokens(tokens: Path | None, *, has_scope: bool, has_address: bool) -> TokenFile | None:
    if tokens is None:
        return None
    if not has_address:
        raise CommandError("--tokens needs --http; over standard input and output there is one client, see --user.")
    if has_scope:
        raise CommandError("give either --tokens or a scope; with --tokens each token has its own.")
    file = TokenFile(tokens)
    if not tokens.exists():
        raise CommandError(
            f"{tokens} does not exist; make a token first: devmem mcp --add-token NAME --tokens {tokens}"
        )
    if not file.tokens():
        raise CommandError(f"{tokens} has no token; make one first: devmem mcp --add-token NAME --tokens {tokens}")
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


def _manage_tokens(
    terminal: Terminal,
    file: TokenFile,
    add: str | None,
    revoke: str | None,
    scope: dict[str, str],
    expires: str | None,
    *,
    unscoped: bool,
    all_users: bool,
    read_only: bool,
) -> None:
    """Make a token, revoke one, or list them all."""
    if add is None and not file.path.exists():
        raise CommandError(f"{file.path} does not exist; --add-token NAME makes it, --tokens names another file.")
    if sum(("user" in scope, unscoped, all_users)) > 1:
        raise CommandError("give only one of --user, --unscoped and --all-users.")
    with usage_errors():
        if add is not None:
            name = checked_name("--add-token", add)
            if not unscoped and not all_users:
                scope.setdefault("user", name)
            lifetime = None if expires is None else parse_duration(expires)
            secret = file.add(name, **scope, all_users=all_users, read_only=read_only, lifetime=lifetime)
            terminal.answer({"name": name, "token": secret}, secret)
            terminal.report("note", f"{file.path} keeps only its hash: store it now, it is not shown again")
        elif revoke is not None:
            file.revoke(revoke)
            terminal.report("note", f"token {revoke!r} is revoked")
        else:
            tokens = file.tokens()
            forms = [one.model_dump(exclude={"digest"}) for one in tokens]
            columns = zoned(("name", "reaches", "may", "created", "expires"))
            terminal.rows(forms, columns, [_row(one) for one in tokens])


def _row(one: Token) -> list[str]:
    owner = "everybody" if one.all_users else "unscoped" if one.user is None else f"user {one.user}"
    parts = [f"{part} {value}" for part in ("agent", "conversation") if (value := getattr(one, part)) is not None]
    expires = "never" if one.expires_at is None else date_text(one.expires_at)
    may = "read" if one.read_only else "read, write"
    return [one.name, ", ".join([owner, *parts]), may, date_text(one.created_at), expires]
