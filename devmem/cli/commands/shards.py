"""`devmem shards`: the databases that a store's items are spread over, moves between them, and taking one out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from devmem.cli.app import CONTEXT, help_of
from devmem.cli.failures import CommandError
from devmem.cli.targets import AsJson, MemoryPlace, OptionalStore, Session, find_store, opened_existing, split_words
from devmem.cli.terminal import Terminal
from devmem.model.caller import DEFAULT_SESSION
from devmem.stores.collection_memory import CollectionMemory

if TYPE_CHECKING:
    from devmem.cli.targets import StoreAddress
    from devmem.storage.sharding.moving import MoveResult
    from devmem.storage.sharding.shard_set import ShardSet


class _ShowsByDefault(TyperGroup):
    """Takes `devmem shards MEMORY` for `devmem shards show MEMORY`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer keeps these types to itself
        return super().resolve_command(ctx, args if args[0] in self.commands else ["show", *args])


shards = typer.Typer(
    cls=_ShowsByDefault,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=CONTEXT,
    help="Show the shards of a store, move tenants between them, and take one out.\n\n\b\n"
    "Examples:\n    devmem shards team.yaml notes\n    devmem shards move team.yaml#notes ann --to second\n"
    "    devmem shards rebalance team.yaml#notes\n    devmem shards drain team.yaml#notes first",
)


@contextmanager
def _opened(terminal: Terminal, place: StoreAddress) -> Iterator[ShardSet]:
    from devmem.storage.sharding.collection import ShardedCollection

    with opened_existing(terminal, place, looking=True) as store:
        found = store.collection if isinstance(store, CollectionMemory) else None
        if not isinstance(found, ShardedCollection):
            raise CommandError(
                f"memory store {store.name!r} keeps its items in one place; `memory_path: {{shards: ...}}` "
                "spreads them."
            )
        yield found.shards


def show(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    tenants: Annotated[
        bool, typer.Option("--tenants", help="List the tenants of each shard, the largest first.")
    ] = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Show the size of each shard, and the move that is in progress.

    A shard that is `new` is in the configuration and takes its share with `devmem shards rebalance`. One that is
    `draining` takes no new tenants, and one that is `drained` can be left out of the configuration.

    Examples:
        devmem shards team.yaml notes
        devmem shards team.yaml notes --tenants --json
    """
    from devmem.storage.sharding.ring import statuses, tenants_in

    terminal: Terminal = ctx.obj
    with _opened(terminal, find_store(terminal, memory, store, session, reading=True)) as found:
        states, known = statuses(found), found.map
        listed = tenants_in(found, [each.name for each in states if each.state in _READ]) if tenants else []
    move = known.move
    if as_json:
        named = [{"shard": shard, "tenant": tenant, "items": items} for shard, tenant, items in listed]
        moving = None if move is None else {key: value for key, value in asdict(move).items() if key != "digest"}
        value = {"by": known.by, "version": known.version, "move": moving, "shards": [asdict(each) for each in states]}
        terminal.json({**value, **({"tenants": named} if tenants else {})})
        return
    rows = [
        (one.name, f"{one.items:,}", f"{one.tenants:,}", f"{one.size_bytes:,}", one.state, one.location)
        for one in states
    ]
    terminal.table(("shard", "items", f"{known.by}s", "bytes", "state", "location"), rows, numbers=_NUMBERS)
    if listed:
        names = [(shard, f"{items:,}", "(none)" if tenant is None else tenant) for shard, tenant, items in listed]
        terminal.table(("shard", "items", known.by), names, numbers=_NUMBERS)
    if move is not None:
        tenant = f"the items without a {known.by}" if move.tenant is None else f"{known.by} {move.tenant!r}"
        terminal.report("note", f"{tenant} moves from {move.source} to {move.target} ({move.phase.value})")


_READ = ("ok", "draining")
_NUMBERS = ("items", "users", "agents", "conversations", "bytes")


def move(
    ctx: typer.Context,
    memory: MemoryPlace,
    tenant: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STORE] TENANT", help="User, agent or conversation whose items move.", show_default=False
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="SHARD", help="Name of the shard that they move to.")
    ] = None,
    unscoped: Annotated[bool, typer.Option("--unscoped", help="Move the items without a tenant.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Give up the move that is in progress.")] = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Move a tenant to another shard, with its history, while it is read and written.

    The tenant stays there until it is moved again, whatever its name says. A move that was interrupted goes on when it
    is asked for again.

    Examples:
        devmem shards move team.yaml#notes ann --to second
        devmem shards move team.yaml#notes --cancel
    """
    terminal: Terminal = ctx.obj
    least = 0 if unscoped or cancel else 1
    usage = "MEMORY [STORE] TENANT --to SHARD"
    place = split_words(terminal, memory, tenant or [], session, least=least, most=least, usage=usage)
    if not cancel and to is None:
        raise CommandError("--to names the shard; `devmem shards MEMORY` lists them.")
    with _opened(terminal, place) as found:
        if cancel:
            _cancel(terminal, found, as_json=as_json)
        else:
            _move(terminal, found, place.words[0] if place.words else None, to or "", as_json=as_json)


def _cancel(terminal: Terminal, found: ShardSet, *, as_json: bool) -> None:
    from devmem.storage.sharding.moving import cancel_move

    cancelled = cancel_move(found)
    text = "no move was in progress" if cancelled is None else f"the move to {cancelled.target} was cancelled"
    terminal.answer({"cancelled": cancelled is not None}, text, as_json=as_json)


def _move(terminal: Terminal, found: ShardSet, tenant: str | None, target: str, *, as_json: bool) -> None:
    from devmem.storage.sharding.moving import move_tenant

    with terminal.progress("copying", None, shown=not as_json) as bar:

        def show_progress(copied: int, every: int) -> None:
            bar.update(bar.task_ids[0], completed=copied, total=every)

        done = move_tenant(found, tenant, target, show_progress)
    terminal.answer(asdict(done), _told(done), as_json=as_json)


def rebalance(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the tenants that would move, and change nothing.")
    ] = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Let shards that were added to the configuration take their share of the tenants.

    Only tenants that belong in a new shard move, one after the other, while they are read and written. Interrupted, it
    goes on where it stopped when it is asked for again.

    Examples:
        devmem shards rebalance team.yaml notes --dry-run
        devmem shards rebalance team.yaml notes
    """
    from devmem.storage.sharding import ring

    terminal: Terminal = ctx.obj
    with _opened(terminal, find_store(terminal, memory, store, session)) as found:
        if dry_run:
            due = ring.due_moves(found)
            named = [dict(zip(("tenant", "source", "target", "items"), each, strict=True)) for each in due]
            lines = [f"{tenant!r}: {source} -> {target}, {items:,} items" for tenant, source, target, items in due]
            terminal.answer(named, "\n".join(lines) or "nothing would move", as_json=as_json)
            return
        done = _moved(terminal, lambda progress: ring.rebalance(found, progress), as_json=as_json)
    terminal.answer([asdict(each) for each in done], _list(done) or "nothing had to move", as_json=as_json)


def _moved(
    terminal: Terminal, move_tenants: Callable[[Callable[[int, int], None]], list[MoveResult]], *, as_json: bool
) -> list[MoveResult]:
    """Move tenants with a progress bar of the items that are copied."""
    with terminal.progress("copying", None, shown=not as_json) as bar:
        return move_tenants(lambda moved, every: bar.update(bar.task_ids[0], completed=moved, total=every))


def _list(done: Sequence[MoveResult]) -> str:
    return "\n".join(_told(each) for each in done)


def drain(
    ctx: typer.Context,
    memory: MemoryPlace,
    shard: Annotated[
        list[str] | None, typer.Argument(metavar="[STORE] SHARD", help="Name of the shard.", show_default=False)
    ] = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Let the shard take tenants again; `rebalance` moves its share back.")
    ] = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Move every tenant out of a shard, so that the configuration can leave it out.

    No new tenant comes to it from the beginning. Its tenants move one after the other to the other shards, while they
    are read and written. Interrupted, it goes on where it stopped when it is asked for again.

    Examples:
        devmem shards drain team.yaml#notes first
        devmem shards drain team.yaml#notes first --cancel
    """
    from devmem.storage.sharding import ring

    terminal: Terminal = ctx.obj
    place = split_words(terminal, memory, shard or [], session, least=1, most=1, usage="MEMORY [STORE] SHARD")
    (name,) = place.words
    with _opened(terminal, place) as found:
        if cancel:
            ring.cancel_drain(found, name)
            terminal.answer({"cancelled": True}, f"{name} takes tenants again: rebalance", as_json=as_json)
            return
        done = _moved(terminal, lambda progress: ring.drain(found, name, progress), as_json=as_json)
    text = f"{name} is drained: leave it out of the configuration, then its database can be dropped"
    moves = [asdict(each) for each in done]
    terminal.answer({"drained": name, "moves": moves}, f"{_list(done)}\n{text}".lstrip(), as_json=as_json)


def _told(done: MoveResult) -> str:
    name = "the items without a tenant" if done.tenant is None else repr(done.tenant)
    if done.source == done.target:
        return f"{name}: already in {done.target}"
    if not done.copied:
        copied = "nothing to copy: is the name right?"
    else:
        copied = f"{done.copied:,} items copied; writers waited {done.longest_wait:.1f} s at most"
    return f"{name}: moved from {done.source} to {done.target} ({copied})"


for _name, _function in (("show", show), ("move", move), ("rebalance", rebalance), ("drain", drain)):
    shards.command(_name, help=help_of(_function), context_settings=CONTEXT)(_function)
