"""`devmem add`, `update`, `list`, `get`, `count` and `history`: the items of one memory, and their versions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, TypedDict, TypeVar

import typer

from devmem.cli.failures import usage_errors
from devmem.cli.inputs import (
    STDIN,
    History,
    ListOrder,
    Offset,
    check_all_there,
    full_id,
    full_ids,
    read_messages,
    read_stdin,
    read_texts,
)
from devmem.cli.options import (
    NEVER,
    Expires,
    Fields,
    Metadata,
    Selection,
    Time,
    Ttl,
    checked_fields,
    expiry_of,
    metadata_of,
    named_scope,
    report_hidden,
    selecting,
)
from devmem.cli.targets import (
    ANY_NUMBER,
    Archived,
    AsJson,
    AsOf,
    EmbeddingName,
    MemoryPlace,
    OptionalStore,
    Session,
    StoreAddress,
    check_lasting,
    find_store,
    make,
    opened,
    opened_existing,
    opened_if_written,
    split_words,
)
from devmem.cli.terminal import Terminal, date_text, item_date, zoned
from devmem.errors import CommandError, VersionConflictError
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.conditions import Order, Scalar
from devmem.text.analysis import shorten
from devmem.text.display import number_of

if TYPE_CHECKING:
    from pydantic import JsonValue

    from devmem.memory.changes import ChangeOptions
    from devmem.memory.contents import AddOptions, Content
    from devmem.memory.memory import Memory
    from devmem.model.items import MemoryItem
    from devmem.model.results import WriteOutcome

_TEXT_USAGE = "MEMORY [STORE] TEXT"
_Text: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="[STORE] TEXT", help="Text to remember; `-` reads standard input.")
]
_IdAndText: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(metavar="[STORE] ID [TEXT]", help="Id of the item, and its new text; `-` reads standard input."),
]
_Key: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Fact that the text states; replaces the earlier text with this key."),
]
_DerivedFrom: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--derived-from", metavar="ID", help="Item that it was concluded from; may be repeated."),
]
_Remove: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="KEY", help="Metadata to remove; may be repeated.")
]
IfVersion: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--if-version", metavar="VERSION", help="Change nothing if another version has been stored meanwhile."
    ),
]


def add(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: _Text,
    lines: Annotated[bool, typer.Option("--lines", help="Remember each line as a separate item.")] = False,
    history: History = False,
    item_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Id of the item; an item with this id is replaced.")
    ] = None,
    key: _Key = None,
    if_version: IfVersion = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="User that the item belongs to.")] = None,
    agent: Annotated[str | None, typer.Option(metavar="ID", help="Agent that the item belongs to.")] = None,
    conversation: Annotated[str | None, typer.Option(metavar="ID", help="Conversation that the item is in.")] = None,
    derived_from: _DerivedFrom = None,
    metadata: Metadata = None,
    field: Fields = None,
    time: Time = None,
    expires: Expires = None,
    ttl: Ttl = None,
    session: Session = DEFAULT_SESSION,
    embedding: EmbeddingName = None,
    as_json: AsJson = False,
) -> None:
    """Remember a text.

    A file that does not exist yet is created. The item is unscoped unless `--user` names a user.

    Examples:
        devmem add team.yaml notes "The venue is the old mill." --user ann --metadata room=5
        devmem add notes.db "The door code is 4711." --ttl 12h
        devmem add notes.db "We met at noon." --metadata title=Launch --field title
        devmem add notes.db - --history --conversation c-7 < chat.json
    """
    from devmem.memory.memory import Memory

    terminal: Terminal = ctx.obj
    place = split_words(terminal, memory, words, session, least=1, most=1, usage=_TEXT_USAGE, embedding=embedding)
    texts = read_messages(place.words[0]) if history else read_texts(place.words[0], lines=lines)
    scope = named_scope(user=user, agent=agent, conversation=conversation)
    named: _Named = {"id": item_id, "key": key, "if_version": if_version}
    options: AddOptions = {"metadata": metadata_of(metadata), "fields": checked_fields(field), "time": time}
    options |= {"expires_at": expiry_of(expires, ttl), "history": history}
    check_lasting(make(place), "an item")
    with opened(terminal, place, save=True) as store, usage_errors():
        options["derived_from"] = full_ids(store, derived_from)
        outcomes = _remember(Memory(store).scoped(**scope) if scope else Memory(store), texts, named, options)
        total = store.count()
    ids = [outcome.item_id or "" for outcome in outcomes]
    if as_json:
        terminal.json({"store": place.store, "ids": ids, "items": total})
        return
    new = sum(outcome.status.value != "duplicate" for outcome in outcomes)
    stored = f"stored {ids[0]}" if len(ids) == 1 else f"{number_of(new, 'item')} stored"
    terminal.print(f"{place.store}: {stored}; {number_of(total, 'item')} now")
    for outcome in outcomes:
        if outcome.status.value == "quarantined":
            terminal.print(f"  {outcome.reason}")


class _Named(TypedDict):
    """Names that one text alone can have."""

    id: str | None
    key: str | None
    if_version: str | None


def _remember(memory: Memory, texts: Sequence[Content], named: _Named, options: AddOptions) -> list[WriteOutcome]:
    """Add the texts and return the outcomes of their items."""
    given = [name for name, value in named.items() if value is not None]
    if not given:
        return memory.add_outcomes(texts, **options)
    if len(texts) != 1 or not isinstance(texts[0], str):
        raise CommandError(f"`--{given[0].replace('_', '-')}` is of one text.")
    return memory.add_outcomes(texts[0], **named, **options)


_OPTIONS: Final = "--metadata, --remove, --time, --expires-at, --ttl or --trust"
_TOLD: Final = 80
"""Characters that a warning repeats of a text."""
W = TypeVar("W", bound=str | timedelta)


_Trust: TypeAlias = Annotated[
    float | None, typer.Option(metavar="NUMBER", min=0, max=1, help="From 0 to 1; no search returns an item with 0.")
]


@selecting(by_user=True)
def update(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: _IdAndText = None,
    metadata: Metadata = None,
    remove: _Remove = None,
    time: Time = None,
    expires: Expires = None,
    ttl: Ttl = None,
    field: Fields = None,
    trust: _Trust = None,
    if_version: IfVersion = None,
    unarchive: Annotated[
        bool, typer.Option("--unarchive", help="Bring an archived item back, so that searches find it.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the items that match.")] = False,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
    *,
    selection: Selection,
) -> None:
    """Change an item and keep its id, or change every item that matches.

    Properties that are not given stay unchanged. `none` removes a time, an expiry or the fields.

    Examples:
        devmem update notes.db 5f2c "Ann moved the launch to June 3rd."
        devmem update team.yaml notes 5f2c --metadata room=6 --remove mood --expires-at none
        devmem update notes.db 5f2c --metadata title="The launch" --field title
        devmem update notes.db --where metadata.state=draft --metadata state=done --dry-run
        devmem update notes.db 5f2c --unarchive
    """
    from devmem.model.filters import Filter

    terminal: Terminal = ctx.obj
    about, until = {**metadata_of(metadata), **dict.fromkeys(remove or ())}, expiry_of(expires, ttl)
    changes = _changes(about, time, until, trust, field)
    changed = bool(about) or any(one is not None for one in (time, until, trust))
    if unarchive:
        if changed or dry_run or field is not None or if_version is not None:
            raise CommandError("--unarchive stands alone: change the item once it is back.")
        place = split_words(terminal, memory, words or [], session, least=1, most=1, usage="MEMORY [STORE] ID")
        _unarchive(terminal, place, as_json=as_json)
        return
    if selection.where == Filter() and not selection.all_users:
        if dry_run:
            raise CommandError("--dry-run counts the items that a condition such as --where selects.")
        place = split_words(terminal, memory, words or [], session, least=1, most=2, usage="MEMORY [STORE] ID [TEXT]")
        if not changed and len(place.words) == 1 and field is None:
            raise CommandError(f"nothing to change: give a TEXT, {_OPTIONS} or --field.")
        _update_one(terminal, place, changes, if_version, as_json)
        return
    for option, value in (("--field", field), ("--if-version", if_version)):
        if value is not None:
            raise CommandError(f"{option} is of one item: name it by its id.")
    if not changed:
        raise CommandError(f"nothing to change: give {_OPTIONS}.")
    place = split_words(terminal, memory, words or [], session, least=0, most=0, usage="MEMORY [STORE]")
    _update_matching(terminal, place, selection, changes, dry_run=dry_run, as_json=as_json)


def _changes(
    metadata: Mapping[str, JsonValue],
    time: str | None,
    until: str | timedelta | None,
    trust: float | None,
    fields: Sequence[str] | None,
) -> ChangeOptions:
    """Return what is given as the arguments of `Memory.update`; the word `none` takes a time away."""
    changes: ChangeOptions = {"metadata": metadata, "trust": trust}
    if time is not None:
        changes["time"] = None if time.lower() == NEVER else time
    if until is not None:
        changes["expires_at"] = None if isinstance(until, str) and until.lower() == NEVER else until
    if fields is not None:
        changes["fields"] = checked_fields(fields)
    return changes


def _update_one(
    terminal: Terminal, place: StoreAddress, changes: ChangeOptions, if_version: str | None, as_json: bool
) -> None:
    from devmem.memory.memory import Memory
    from devmem.views.documents import current_item_json

    with opened_existing(terminal, place, save=True) as store, usage_errors():
        memory, found = Memory(store), full_id(store, place.words[0])
        # Read before the text: whoever types it may take long.
        seen = memory.get(found)
        text = place.words[1] if len(place.words) > 1 else None
        text = read_stdin() if text == STDIN else text
        change = partial(memory.update, found, text, **changes)
        try:
            record = change(if_version=if_version or (None if seen is None else seen.version))
        except VersionConflictError:
            if if_version is not None or seen is None:
                raise
            terminal.report("warning", _changed_meanwhile(memory, seen))
            record = change()
    terminal.answer(current_item_json(record), f"{place.store}: changed {record.id}", as_json=as_json)


def _update_matching(
    terminal: Terminal,
    place: StoreAddress,
    selection: Selection,
    changes: ChangeOptions,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    from devmem.memory.memory import Memory
    from devmem.model.items import ANY

    user = ANY if selection.all_users else None
    with opened_existing(terminal, place, save=True) as store, usage_errors():
        report_hidden(terminal, store, selection.visible)
        count = Memory(store).update(where=selection.where, dry_run=dry_run, user=user, **changes)
    done = f"{number_of(count, 'item')} would be changed" if dry_run else f"changed {number_of(count, 'item')}"
    terminal.answer({"changed": count, "dry_run": dry_run}, f"{place.store}: {done}", as_json=as_json)


def _unarchive(terminal: Terminal, place: StoreAddress, *, as_json: bool) -> None:
    from devmem.stores.archiving import restore

    with opened_existing(terminal, place, save=True) as store:
        found = full_id(store, place.words[0])
        (outcome,) = restore(store, [found])
    if not outcome:
        raise CommandError(f"{found}: {outcome.reason}.")
    terminal.answer({"restored": found}, f"{place.store}: {found} is no longer archived", as_json=as_json)


def _changed_meanwhile(memory: Memory, seen: MemoryItem) -> str:
    """Return what to tell somebody whose change replaces one that was made while theirs was typed."""
    from devmem.stores.abilities import keeps_versions

    versions = memory.history(seen.id) if keeps_versions(memory.store) else ()
    kept = "`devmem history` shows both" if versions else "the store keeps no versions"
    by = f" by {versions[-1].actor}" if versions and versions[-1].actor else ""
    now = memory.get(seen.id)
    said = f", to {shorten(now.text, _TOLD)!r}" if now is not None and now.text != seen.text else ""
    return f"item {seen.id} was changed{by} meanwhile{said}; your change is made to that, and {kept}"


_EveryUser = Annotated[bool, typer.Option("--all-users", help="Items of every user (the default).")]


@selecting(by_user=True, all_users=_EveryUser)
def count(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="KEY", help="Count each value of `user`, `agent`, `metadata.KEY` ...")
    ] = None,
    archived: Archived = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
    *,
    selection: Selection,
) -> None:
    """Count items, or those with each value of a key.

    Items of every user are counted, as `devmem list` lists them. A list counts with each of its elements; items without
    a value are counted together.

    Examples:
        devmem count notes.db --by metadata.topic --where "metadata.priority>=3"
        devmem count team.yaml notes --by user
    """
    from devmem.memory.memory import Memory
    from devmem.model.items import ANY

    terminal: Terminal = ctx.obj
    place = find_store(terminal, memory, store, session, reading=True)
    found: list[tuple[Scalar | None, int]] = []
    total = 0
    with opened_if_written(terminal, place, looking=True, archived=archived) as opened, usage_errors():
        if opened is not None:
            whole = Memory(opened)
            total = whole.count(where=selection.where, user=ANY)
            found = [] if by is None else whole.count(by=by, where=selection.where, user=ANY)
    if as_json:
        values = [{"value": value, "count": number} for value, number in found]
        terminal.json({"count": total} if by is None else {"count": total, "values": values})
    elif by is None:
        terminal.print(f"{total:,}")
    else:
        rows = [
            ("" if value is None else json.dumps(value, ensure_ascii=False), f"{number:,}") for value, number in found
        ]
        terminal.table((by, "items"), rows, numbers=("items",))


_COLUMNS = ("date", "id", "source", "text")
_DETAILS = (
    "date",
    "stored",
    "expires",
    "id",
    "hash",
    "waiting",
    "trust",
    "kind",
    "source",
    "made from",
    "scope",
    "input",
    "output",
    "attachments",
    "metadata",
    "text",
)
_NUMBERS = ("trust", "input", "output", "attachments")


@selecting(by_user=True, all_users=_EveryUser)
def list_items(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Number of items.")] = 10,
    order: ListOrder = Order.STORED,
    offset: Offset = 0,
    as_of: AsOf = None,
    archived: Archived = False,
    details: Annotated[bool, typer.Option("--details", help="Show every property of each item.")] = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
    *,
    selection: Selection,
) -> None:
    """List items, the newest first.

    Examples:
        devmem list notes.db --where "metadata.priority>=3" --order event --offset 10
        devmem list notes.db --as-of 2026-06-02T14:30
        devmem list configs/demo/team.yaml notes --session demo --limit 3
    """
    from devmem.views.documents import current_item_json

    terminal: Terminal = ctx.obj
    place = find_store(terminal, memory, store, session, reading=True)
    has_model = False
    items: Sequence[MemoryItem] = ()
    with opened_if_written(terminal, place, looking=True, as_of=as_of, archived=archived) as opened:
        if opened is not None:
            items = opened.recent(limit, selection.where, order=order, offset=offset)
            has_model = opened.info().embedding is not None
    if as_json:
        terminal.json([current_item_json(item) for item in items])
    elif details:
        terminal.table(zoned(_DETAILS), [_details(item, has_model=has_model) for item in items], numbers=_NUMBERS)
    else:
        terminal.table(zoned(_COLUMNS), [_row(item) for item in items])


def get(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: Annotated[list[str], typer.Argument(metavar="[STORE] ID...", help="Ids of the items.")],
    as_of: AsOf = None,
    archived: Archived = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Show whole items.

    Examples:
        devmem get notes.db 5f2c
        devmem get team.yaml notes 5f2c 77ab --as-of yesterday
    """
    from devmem.views.documents import current_item_json

    terminal: Terminal = ctx.obj
    place = split_words(
        terminal, memory, words, session, least=1, most=ANY_NUMBER, usage="MEMORY [STORE] ID...", reading=True
    )
    ids: Sequence[str] = place.words
    items: Sequence[MemoryItem] = ()
    with opened_if_written(terminal, place, looking=True, as_of=as_of, archived=archived) as opened:
        if opened is not None:
            ids = full_ids(opened, ids) or ()
            items = opened.get(ids)
    if as_json:
        terminal.json([current_item_json(item) for item in items])
    else:
        for item in items:
            terminal.json(current_item_json(item), indent=2)
    check_all_there(place.store, ids, items)


def _row(item: MemoryItem) -> Sequence[str]:
    return item_date(item), item.id, item.provenance.name, item.content_summary


def _details(item: MemoryItem, *, has_model: bool) -> Sequence[str]:
    """Return the cells of `_DETAILS`; an item without an embedding waits for it if its store has a model."""
    from devmem.model.filters import NAMED_FIELDS
    from devmem.search.indexes.passages import has_text

    snapshots = (item.input_snapshot, item.output_snapshot)
    attached = sum(len(snapshot.attachment_overview()) for snapshot in snapshots if snapshot)
    bound = ((each.key, each.of(item)) for each in NAMED_FIELDS)
    return (
        item_date(item),
        date_text(item.created_at),
        date_text(item.expires_at),
        item.id,
        item.content_hash[:12],
        "yes" if has_model and item.embedding is None and has_text(item) else "",
        f"{item.trust:g}",
        item.provenance.kind.value,
        item.provenance.name,
        ", ".join(item.provenance.parents),
        ", ".join(f"{name}={value}" for name, value in bound if value is not None),
        *(str(len(snapshot.text)) if snapshot else "" for snapshot in snapshots),
        str(attached) if attached else "",
        ", ".join(item.metadata),
        item.content_summary,
    )
