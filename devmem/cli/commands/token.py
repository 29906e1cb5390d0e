"""`devmem token add`, `list` and `revoke`: the users of `devmem mcp --http`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from devmem.cli.app import CONTEXT, help_of
from devmem.cli.failures import CommandError, usage_errors
from devmem.cli.options import checked_name
from devmem.cli.targets import AsJson
from devmem.cli.terminal import Terminal, date_text, zoned
from devmem.server import Token, TokenFile
from devmem.text.durations import parse_duration

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
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token, and by default of its user.")],
    user: Annotated[str | None, typer.Option(metavar="ID", help="User whose memories it reaches.")] = None,
    unscoped: Annotated[bool, typer.Option("--unscoped", help="Reach unscoped memories.")] = False,
    all_users: Annotated[bool, typer.Option("--all-users", help="Reach everyone's memories.")] = False,
    agent: Annotated[str | None, typer.Option(metavar="ID", help="Reach only this agent's memories.")] = None,
    conversation: Annotated[str | None, typer.Option(metavar="ID", help="Reach only this conversation's.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow no changes.")] = False,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="Refuse it after a time such as 30d.")] = None,
    tokens: _File = _DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it.

    It is shown only once; the file keeps only its hash. A running server accepts it from the next request on.

    Examples:
        devmem token add ann
        devmem token add dashboard --all-users --read-only --expires 30d
    """
    terminal: Terminal = ctx.obj
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
    terminal.answer({"name": name, "token": secret}, secret, as_json=as_json)
    terminal.report("note", f"{tokens} keeps only its hash: store it now, it is not shown again")


def list_tokens(ctx: typer.Context, tokens: _File = _DEFAULT, as_json: AsJson = False) -> None:
    """List the tokens, but not their secrets.

    Examples:
        devmem token list
    """
    terminal: Terminal = ctx.obj
    found = _existing(tokens).tokens()
    if as_json:
        terminal.json([one.model_dump(exclude={"digest"}) for one in found])
    else:
        terminal.table(zoned(("name", "reaches", "may", "created", "expires")), [_row(one) for one in found])


def revoke(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")],
    tokens: _File = _DEFAULT,
) -> None:
    """Revoke a token: servers refuse it from the next request on.

    Examples:
        devmem token revoke ann
    """
    terminal: Terminal = ctx.obj
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
    token.command(name, help=help_of(function), context_settings=CONTEXT)(function)


_register("add", add)
_register("list", list_tokens)
_register("revoke", revoke)
