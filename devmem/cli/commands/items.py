"""`devmem add`, `update`, `list`, `get` and `count`: the items of one memory."""

from __future__ import annotations

import json
import time as clock
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from devmem.cli.declaring import option
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
    EverySelection,
    ItemValues,
    VisibleSelection,
    checked_fields,
    named_scope,
    report_hidden,
)
from devmem.cli.targets import (
    ANY_NUMBER,
    NOW,
    Archived,
    JsonTerminal,
    ReadPlace,
    StateOptions,
    StoreAddress,
    Target,
    check_lasting,
)
from devmem.cli.terminal import Terminal, date_text, item_date, zoned
from devmem.errors import CommandError
from devmem.model.conditions import Order, Scalar
from devmem.text.display import number_of

if TYPE_CHECKING:
    from devmem.memory.changes import ChangeOptions
    from devmem.memory.contents import AddOptions
    from devmem.model.filters import Filter
    from devmem.model.items import MemoryItem
    from devmem.stores.memory import MemoryBase

_IfVersion: TypeAlias = Annotated[
    str | None,
    option("Change nothing if another version has been stored meanwhile.", "--if-version", metavar="VERSION"),
]


def add(
    terminal: JsonTerminal,
    place: Annotated[
        StoreAddress,
        Target(words="TEXT", about="Text to remember; `-` reads standard input.", least=1, most=1, embedding=True),
    ],
    values: ItemValues,
    lines: Annotated[bool, option("Remember each line as a separate item.")] = False,
    history: History = False,
    item_id: Annotated[
        str | None, option("Id of the item; an item with this id is replaced.", "--id", metavar="ID")
    ] = None,
    key: Annotated[
        str | None, option("Fact that the text states; replaces the earlier text with this key.", metavar="NAME")
    ] = None,
    if_version: _IfVersion = None,
    user: Annotated[str | None, option("User that the item belongs to.", metavar="ID")] = None,
    agent: Annotated[str | None, option("Agent that the item belongs to.", metavar="ID")] = None,
    conversation: Annotated[str | None, option("Conversation that the item is in.", metavar="ID")] = None,
    derived_from: Annotated[
        list[str] | None, option("Item that it was concluded from; may be repeated.", metavar="ID")
    ] = None,
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

    texts = read_messages(place.words[0]) if history else read_texts(place.words[0], lines=lines)
    scope = named_scope(user=user, agent=agent, conversation=conversation)
    options: AddOptions = {
        "metadata": values.named_metadata(),
        "fields": checked_fields(values.field),
        "time": values.time,
        "expires_at": values.expiry(),
        "history": history,
    }
    check_lasting(place.make(), "an item")
    with place.opened(save=True) as store, usage_errors():
        options["derived_from"] = full_ids(store, derived_from)
        whole = Memory(store)
        memory = whole.scoped(**scope) if scope else whole
        if item_id is None and key is None and if_version is None:
            outcomes = memory.add_outcomes(texts, **options)
        elif len(texts) == 1 and isinstance(texts[0], str):
            outcomes = memory.add_outcomes(texts[0], id=item_id, key=key, if_version=if_version, **options)
        else:
            raise CommandError("--id, --key and --if-version can be used only for one text.")
        total = store.count()
    ids = [outcome.item_id or "" for outcome in outcomes]
    new = sum(outcome.status.value != "duplicate" for outcome in outcomes)
    stored = f"stored {ids[0]}" if len(ids) == 1 else f"{number_of(new, 'item')} stored"
    told = [outcome.reason for outcome in outcomes if outcome.status.value == "quarantined"]
    text = "\n  ".join([f"{place.store}: {stored}; {number_of(total, 'item')} now", *told])
    terminal.answer({"store": place.store, "ids": ids, "items": total}, text)


_OPTIONS: Final = "--metadata, --remove, --time, --expires-at, --ttl or --trust"


def update(
    terminal: JsonTerminal,
    place: Annotated[
        StoreAddress,
        Target(words="[ID] [TEXT]", about="Id of the item, and its new text; `-` reads standard input.", most=2),
    ],
    selection: VisibleSelection,
    values: ItemValues,
    remove: Annotated[list[str] | None, option("Metadata to remove; may be repeated.", metavar="KEY")] = None,
    trust: Annotated[
        float | None, option("From 0 to 1; no search returns an item with 0.", metavar="NUMBER", min=0, max=1)
    ] = None,
    if_version: _IfVersion = None,
    unarchive: Annotated[bool, option("Bring an archived item back, so that searches find it.")] = False,
    approve: Annotated[bool, option("Take an item out of quarantine, so that searches find it.")] = False,
    reason: Annotated[str, option("Reason of --approve, for the history.", metavar="TEXT")] = "",
    dry_run: Annotated[bool, option("Only count the items that match.")] = False,
) -> None:
    """Change an item and keep its id, or change every item that matches.

    Properties that are not given stay unchanged. `none` removes a time, an expiry or the fields.

    Examples:
        devmem update notes.db 5f2c "Ann moved the launch to June 3rd."
        devmem update team.yaml notes 5f2c --metadata room=6 --remove mood --expires-at none
        devmem update notes.db 5f2c --metadata title="The launch" --field title
        devmem update notes.db --where metadata.state=draft --metadata state=done --dry-run
        devmem update notes.db 5f2c --unarchive
        devmem update team.yaml notes 8a30 --approve --reason "our own newsletter"
    """
    from devmem.memory.memory import Memory
    from devmem.model.items import ANY
    from devmem.server.requests import StoredMemory

    changes = _changes(values, remove or (), trust)
    of_one = bool(changes) or len(place.words) > 1
    if (unarchive or approve) and (of_one or if_version is not None or dry_run or unarchive is approve):
        raise CommandError("--unarchive and --approve cannot be combined with each other or with changes of the item.")
    if reason and not approve:
        raise CommandError("--reason requires --approve.")
    of_several = not selection.is_empty()
    if of_several and (place.words or values.field is not None or if_version is not None or unarchive or approve):
        raise CommandError(
            "an ID, --field, --if-version, --unarchive and --approve cannot be combined with conditions."
        )
    if dry_run and not of_several:
        raise CommandError("--dry-run counts the items that a condition such as --where selects.")
    if not (changes if of_several else place.words and (of_one or unarchive or approve)):
        raise CommandError(f"nothing to change: give an ID, and a TEXT, {_OPTIONS} or --field.")
    named, text = (*place.words, None, None)[:2]
    answer: object
    with place.opened_existing(save=True) as store, usage_errors():
        memory, found = Memory(store), full_id(store, named or "")
        if of_several:
            report_hidden(terminal, store, selection.visible)
            user = ANY if selection.all_users else None
            count = memory.update(where=selection.filter, dry_run=dry_run, user=user, **changes)
            told = f"{number_of(count, 'item')} would be changed" if dry_run else f"changed {number_of(count, 'item')}"
            answer = {"changed": count, "dry_run": dry_run}
        elif unarchive:
            (outcome,) = memory.restore(found)
            if not outcome:
                raise CommandError(f"{found}: {outcome.reason}.")
            answer, told = {"restored": found}, f"{found} is no longer archived"
        elif approve:
            item = memory.approve(found, reason=reason)
            answer, told = StoredMemory.of(item), f"approved {item.id}"
        else:
            item = memory.update(found, read_stdin() if text == STDIN else text, if_version=if_version, **changes)
            answer, told = StoredMemory.of(item), f"changed {item.id}"
    terminal.answer(answer, f"{place.store}: {told}")


def _changes(values: ItemValues, removed: Sequence[str], trust: float | None) -> ChangeOptions:
    """Return what is given as the arguments of `Memory.update`; the word `none` takes a time away."""
    changes: ChangeOptions = {}
    if metadata := {**values.named_metadata(), **dict.fromkeys(removed)}:
        changes["metadata"] = metadata
    if trust is not None:
        changes["trust"] = trust
    if values.time is not None:
        changes["time"] = None if values.time.lower() == NEVER else values.time
    if (until := values.expiry()) is not None:
        changes["expires_at"] = None if isinstance(until, str) and until.lower() == NEVER else until
    if values.field is not None:
        changes["fields"] = checked_fields(values.field)
    return changes


def count(
    terminal: JsonTerminal,
    place: ReadPlace,
    selection: EverySelection,
    by: Annotated[str | None, option("Count each value of `user`, `agent`, `metadata.KEY` ...", metavar="KEY")] = None,
    archived: Archived = False,
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

    found: list[tuple[Scalar | None, int]] = []
    total = 0
    with place.opened_if_written(StateOptions(archived=archived), looking=True) as store, usage_errors():
        if store is not None:
            total = Memory(store).count(where=selection.filter, user=ANY)
            found = [] if by is None else Memory(store).count(by=by, where=selection.filter, user=ANY)
    if by is None:
        terminal.answer({"count": total}, f"{total:,}")
        return
    values = [{"value": value, "count": number} for value, number in found]
    named = ["" if value is None else json.dumps(value, ensure_ascii=False) for value, _ in found]
    rows = [(name, f"{number:,}") for name, (_, number) in zip(named, found, strict=True)]
    terminal.rows({"count": total, "values": values}, (by, "items"), rows, numbers=("items",))


def list_items(
    terminal: JsonTerminal,
    place: ReadPlace,
    selection: EverySelection,
    limit: Annotated[int, option("Number of items.", "--limit", "-n", metavar="N", min=1)] = 10,
    order: ListOrder = Order.STORED,
    offset: Offset = 0,
    state: StateOptions = NOW,
    quarantined: Annotated[bool, option("The items that a guard caught, which no search finds.")] = False,
    stale: Annotated[bool, option("The items whose sources changed or are gone.")] = False,
    tombstones: Annotated[bool, option("What erased texts left to keep them out; see `devmem forget`.")] = False,
) -> None:
    """List items, the newest first.

    An item in quarantine is deleted when the time of the store's `guard: {keep: ...}` has passed; `devmem update
    --approve` takes it out, and `devmem forget --id` forgets it at once. An item that was derived from others, as a
    summary or by `devmem add --derived-from`, is stale once one of these was replaced, reverted or erased, or is stale
    itself; `devmem consolidate --renew` summarizes its sources once more.

    Examples:
        devmem list notes.db --where "metadata.priority>=3" --order event --offset 10
        devmem list notes.db --as-of 2026-06-02T14:30
        devmem list configs/demo/team.yaml notes --session demo --limit 3
        devmem list team.yaml notes --quarantined
    """
    from devmem.memory.reading import QUARANTINED
    from devmem.server.requests import StoredMemory

    if sum((state.as_of is not None, state.archived, quarantined, stale, tombstones)) > 1:
        raise CommandError("give one of --as-of, --archived, --quarantined, --stale and --tombstones.")
    with place.opened_if_written(state, looking=True) as store:
        if tombstones:
            _list_tombstones(terminal, store)
            return
        if stale:
            _list_stale(terminal, store, selection.filter, slice(offset, offset + limit))
            return
        where = selection.filter & QUARANTINED if quarantined else selection.filter
        items = [] if store is None else store.recent(limit, where, order=order, offset=offset)
    if terminal.as_json:
        terminal.json([StoredMemory.of(item) for item in items])
    elif quarantined:
        rows = [
            (date_text(one.created_at), date_text(one.expires_at), one.id, one.provenance.kind.value,
             one.provenance.name, one.quarantine_reason or "", one.content_summary)
            for one in items
        ]  # fmt: skip
        terminal.table(zoned(("stored", "deleted", "id", "kind", "source", "reason", "text")), rows)
    else:
        listed = [(item_date(item), item.id, item.provenance.name, item.content_summary) for item in items]
        terminal.table(zoned(("date", "id", "source", "text")), listed)


def _list_stale(terminal: Terminal, store: MemoryBase | None, where: Filter, page: slice) -> None:
    from devmem.server.requests import StoredMemory
    from devmem.stores.staleness import stale_items

    stale = [] if store is None else stale_items(store)
    now = clock.time()
    found = [each for each in stale if where.admits(each.item, now)][page]
    forms = [{"item": StoredMemory.of(one.item), "reason": one.reason, "parent": one.parent} for one in found]
    rows = [(one.item.id[:8], one.reason.value, one.parent[:8], one.item.content_summary) for one in found]
    terminal.rows(forms, ("id", "reason", "source", "text"), rows)


def _list_tombstones(terminal: Terminal, store: MemoryBase | None) -> None:
    from devmem.stores.abilities import tombstones_of

    found = [] if store is None else tombstones_of(store).tombstones()
    rows = [(one.id[:8], date_text(one.erased_at), str(one.texts), str(one.sentences)) for one in found]
    terminal.rows(found, zoned(("id", "time", "texts", "sentences")), rows, numbers=("texts", "sentences"))


def get(
    terminal: JsonTerminal,
    place: Annotated[
        StoreAddress, Target(words="ID...", about="Ids of the items.", least=1, most=ANY_NUMBER, reading=True)
    ],
    state: StateOptions = NOW,
) -> None:
    """Show whole items.

    Examples:
        devmem get notes.db 5f2c
        devmem get team.yaml notes 5f2c 77ab --as-of yesterday
    """
    from devmem.server.requests import StoredMemory

    ids: Sequence[str] = place.words
    items: Sequence[MemoryItem] = ()
    with place.opened_if_written(state, looking=True) as store:
        if store is not None:
            ids = full_ids(store, ids)
            items = store.get(ids)
    forms = [StoredMemory.of(item) for item in items]
    if terminal.as_json:
        terminal.json(forms)
    else:
        for form in forms:
            terminal.json(form, indent=2)
    check_all_there(place.store, ids, items)
