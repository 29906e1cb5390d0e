"""`devmem mcp`: serve a memory to MCP clients, and manage the tokens of those who reach it over HTTP."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from devmem.cli.commands.agents import HookTime, run_hook
from devmem.cli.declaring import OptionGroup, argument, option
from devmem.cli.failures import usage_errors
from devmem.cli.options import AllUsers, checked_name, named_scope
from devmem.cli.targets import OptionalStore, Session, StoreAddress, find_store
from devmem.cli.terminal import Terminal, date_text, zoned
from devmem.errors import CommandError, installed_version
from devmem.memory.memory import Memory
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.items import ANY
from devmem.server import MAX_WORKERS, Allowances, Limits, Token, TokenFile, checked_address
from devmem.text.durations import parse_duration

if TYPE_CHECKING:
    from devmem.adapters.mcp.server import ServerOptions

_DEFAULT_HOST: Final = "127.0.0.1"
_DEFAULT_TOKENS: Final = Path("devmem-tokens.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach(OptionGroup):
    """The part of a memory that clients reach, or the holder of a new token."""

    user: Annotated[str | None, option("Reach only this user's items.", metavar="ID")] = None
    agent: Annotated[str | None, option("Reach only this agent's items.", metavar="ID")] = None
    conversation: Annotated[str | None, option("Reach only items of this conversation.", metavar="ID")] = None
    all_users: AllUsers = False
    read_only: Annotated[bool, option("Offer only the tools that change nothing.")] = False

    def named(self) -> dict[str, str]:
        """Return the parts of the scope that are named."""
        return named_scope(user=self.user, agent=self.agent, conversation=self.conversation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(OptionGroup):
    """How a memory is served over HTTP."""

    http: Annotated[
        str | None, option("Serve over HTTP at /mcp; otherwise over standard input and output.", metavar="[HOST:]PORT")
    ] = None
    tokens: Annotated[
        Path | None, option("Answer only requests with one of the tokens that --add-token puts here.", metavar="FILE")
    ] = None
    allow_host: Annotated[
        list[str] | None, option("Additional name by which clients reach the server.", metavar="NAME")
    ] = None
    behind_tls: Annotated[bool, option("Confirm that a proxy in front of the server terminates TLS.")] = False
    plain_http: Annotated[bool, option("Accept that tokens and memories cross the network unencrypted.")] = False
    rate: Annotated[int, option("Maximum number of requests per token and minute.", metavar="N", min=1)] = 600
    workers: Annotated[
        int, option("Number of processes behind the port of --http.", metavar="N", min=1, max=MAX_WORKERS)
    ] = 1

    def token_file(self, reach: Reach) -> TokenFile | None:
        """Return the file of tokens; None where none is needed."""
        tokens = self.tokens
        if tokens is None:
            return None
        if self.http is None:
            raise CommandError("--tokens needs --http; over standard input and output there is one client, see --user.")
        if reach.named() or reach.all_users:
            raise CommandError("give either --tokens or a scope; with --tokens each token has its own.")
        file, advice = TokenFile(tokens), f"devmem mcp --add-token NAME --tokens {tokens}"
        if not tokens.exists():
            raise CommandError(f"{tokens} does not exist; make a token first: {advice}")
        if not file.tokens():
            raise CommandError(f"{tokens} has no token; make one first: {advice}")
        return file


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChange(OptionGroup):
    """A change of a file of tokens, instead of serving a memory."""

    add_token: Annotated[
        str | None, option("Make a token, by default for the user of this name, and print it instead.", metavar="NAME")
    ] = None
    unscoped: Annotated[bool, option("With --add-token: reach unscoped items.")] = False
    expires: Annotated[
        str | None, option("With --add-token: refuse it after a time such as 30d.", metavar="DURATION")
    ] = None
    list_tokens: Annotated[bool, option("List the tokens, not their secrets.")] = False
    revoke_token: Annotated[
        str | None, option("Revoke a token instead: servers refuse it from the next request on.", metavar="NAME")
    ] = None

    def count(self) -> int:
        """Return how many things are to be done."""
        return sum((self.list_tokens, self.add_token is not None, self.revoke_token is not None))

    def apply(self, terminal: Terminal, file: TokenFile, reach: Reach) -> None:
        """Make a token, revoke one, or list them all."""
        if self.add_token is None and not file.path.exists():
            raise CommandError(f"{file.path} does not exist; --add-token NAME makes it, --tokens names another file.")
        scope = reach.named()
        if sum(("user" in scope, self.unscoped, reach.all_users)) > 1:
            raise CommandError("give only one of --user, --unscoped and --all-users.")
        with usage_errors():
            if self.add_token is not None:
                name = checked_name("--add-token", self.add_token)
                if not self.unscoped and not reach.all_users:
                    scope.setdefault("user", name)
                lifetime = None if self.expires is None else parse_duration(self.expires)
                secret = file.add(
                    name, all_users=reach.all_users, read_only=reach.read_only, lifetime=lifetime, **scope
                )
                terminal.answer({"name": name, "token": secret}, secret)
                terminal.report("note", f"{file.path} keeps only its hash: store it now, it is not shown again")
            elif self.revoke_token is not None:
                file.revoke(self.revoke_token)
                terminal.report("note", f"token {self.revoke_token!r} is revoked")
            else:
                tokens = file.tokens()
                forms = [one.model_dump(exclude={"digest"}) for one in tokens]
                columns = zoned(("name", "reaches", "may", "created", "expires"))
                terminal.rows(forms, columns, [_row(one) for one in tokens])


def mcp(
    terminal: Annotated[Terminal, option("With --add-token or --list-tokens: print JSON.", "--json")],
    reach: Reach,
    service: Service,
    change: TokenChange,
    memory: Annotated[
        str | None,
        argument("MEMORY", "A file, a workflow, or a store of one; not needed to manage tokens."),
    ] = None,
    store: OptionalStore = None,
    search_fetch: Annotated[
        bool, option("Also offer the tools `search` and `fetch`, which some products require.")
    ] = False,
    budget: Annotated[int, option("Maximum size of an answer.", metavar="TOKENS", min=200, max=100_000)] = 2_000,
    hook: Annotated[
        HookTime | None, option("Answer a hook of a coding agent instead, whose event is JSON on standard input.")
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
    if change.add_token is None and (change.unscoped or change.expires is not None):
        raise CommandError("--unscoped and --expires require --add-token.")
    if change.count():
        if memory is not None or change.count() > 1:
            raise CommandError("--add-token, --list-tokens and --revoke-token serve no memory; give one of them alone.")
        change.apply(terminal, TokenFile(service.tokens or _DEFAULT_TOKENS), reach)
        return
    if memory is None:
        raise CommandError("name the memory to serve: devmem mcp MEMORY.")
    if hook is not None:
        run_hook(terminal, hook, memory)
    if reach.all_users and reach.user is not None:
        raise CommandError("give either --user or --all-users, not both.")
    tokens = service.token_file(reach)
    place = find_store(terminal, memory, [store] if store else [], session)
    if (reason := place.why_empty()) is not None:
        if reach.read_only:
            raise CommandError(f"{reason}; there is nothing to serve read-only.")
        terminal.report("note", reason)
    if service.workers > 1 and (service.http is None or not hasattr(os, "fork")):
        raise CommandError("--workers needs --http, and a system that forks processes, which Windows does not.")
    from devmem.adapters.mcp.server import ServerOptions

    options = ServerOptions(
        read_only=reach.read_only, budget=budget, search_fetch=search_fetch, version=installed_version()
    )
    _serve(terminal, place, reach, service, options, tokens)


def _serve(
    terminal: Terminal,
    place: StoreAddress,
    reach: Reach,
    service: Service,
    options: ServerOptions,
    tokens: TokenFile | None,
) -> None:
    """Serve a memory over standard input and output, or over HTTP, until the client or the user ends it."""
    from devmem.adapters.mcp.server import make_server, serve_http, serve_stdio
    from devmem.server.connections import fork_workers

    allowances = Allowances(Limits(per_minute=service.rate), workers=service.workers)
    names, is_worker = tuple(service.allow_host or ()), service.workers > 1
    with ExitStack() as stack, usage_errors():
        host, bound = "", None
        if service.http is not None:
            host, _, port = service.http.rpartition(":")
            if not port.isdecimal() or not 0 < int(port) < 65_536:
                raise CommandError(f"--http {service.http!r}: expected PORT or HOST:PORT, such as 8000.")
            host = host or _DEFAULT_HOST
            confirmed = service.behind_tls or service.plain_http
            listener = checked_address(
                host.strip("[]"), int(port), has_tokens=tokens is not None, is_confirmed=confirmed, allowed=names
            )
            bound = stack.enter_context(listener)
            terminal.report("note", f"serving {place.store} at http://{host}:{port}/mcp until Ctrl-C")
        if is_worker:
            # Before the memory is opened, which each worker does for itself.
            allowances.worker = fork_workers(service.workers)
            allowances.forget_worker()
        kept = stack.enter_context(place.opened(save=not options.read_only))
        if is_worker and kept.info().location == ":memory:":
            raise CommandError("--workers needs a file or a database, which the processes have in common.")
        scope: dict[str, Any] = {**reach.named(), **({"user": ANY} if reach.all_users else {})}
        server = make_server(Memory(kept).scoped(**scope) if scope else Memory(kept), options, tokens=tokens)
        if bound is None:
            serve_stdio(server)
        else:
            serve_http(server, bound, host.strip("[]"), hosts=names, allowances=allowances, is_worker=is_worker)


def _row(one: Token) -> list[str]:
    owner = "everybody" if one.all_users else "unscoped" if one.user is None else f"user {one.user}"
    parts = [f"{part} {value}" for part in ("agent", "conversation") if (value := getattr(one, part)) is not None]
    expires = "never" if one.expires_at is None else date_text(one.expires_at)
    may = "read" if one.read_only else "read, write"
    return [one.name, ", ".join([owner, *parts]), may, date_text(one.created_at), expires]
