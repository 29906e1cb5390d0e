"""The form of `devmem export`: `{"format": "devmem-export", "version", "store", "type", "items": [...], "count"}`.

`fields` are the paths of the metadata by which the store is searched; they are left out where there are none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from devmem.errors import MessageError
from devmem.model.fields import is_path
from devmem.model.items import TRUST, MemoryItem, Provenance, Scope, SourceKind, load_item
from devmem.model.message_json import load_message, message_to_item, readable_text
from devmem.model.times import time_key
from devmem.text.analysis import SUMMARY_LENGTH, shorten
from devmem.transfer.importing.files import LISTS
from devmem.transfer.importing.records import (
    Line,
    Position,
    digest,
    numbered,
    read_each,
    shaped,
    text_item,
    text_of,
    unique_id,
)

FORMAT: Final = "devmem-export"
VERSION: Final = 1
FIELDS_KEY: Final = "fields"


def is_export(raw: object) -> bool:
    """Whether a document has this form."""
    return isinstance(raw, Mapping) and raw.get("format") == FORMAT


def exported_fields(document: object, origin: Position) -> tuple[str, ...]:
    """Return the fields by which an exported store was searched; none of any other document.

    Raises:
        DataFileError: they are not paths.
    """
    if not is_export(document) or not isinstance(document, Mapping):
        return ()
    fields = document.get(FIELDS_KEY) or []
    if not isinstance(fields, list) or not all(isinstance(path, str) and is_path(path) for path in fields):
        raise origin.error(f"`{FIELDS_KEY}`: expected a list of paths such as 'title', found {fields!r}")
    return tuple(fields)


def exported_items(document: object, origin: Position) -> Iterator[MemoryItem]:
    """Yield the items exactly as they were, without vectors: nothing says which model made them."""
    form = f"an object with `format` = {FORMAT!r} and `items`"
    document = shaped(document, lambda raw: is_export(raw) and isinstance(raw.get("items"), LISTS), form, origin)
    version, items = document.get("version"), document["items"]
    if version != VERSION:
        raise origin.error(f"the export has version {version!r}, known is {VERSION}: upgrade devmem.")
    if document.get("count") != len(items):
        raise origin.error(f"the export says it has {document.get('count')!r} items, but there are {len(items)}")
    yield from read_each(numbered(items, origin.at("items")), _exported_item)


def _exported_item(raw: object, origin: Position) -> Iterator[MemoryItem]:
    raw = shaped(raw, lambda item: isinstance(item.get("id"), str), "an item with an `id`", origin)
    try:
        yield load_item({key: value for key, value in raw.items() if key != "embedding"})
    except ValidationError as error:
        raise origin.invalid(error) from error


_SCOPE: Final = {"user_id": "user", "agent_id": "agent", "run_id": "run"}
_KEPT: Final = ("categories", "actor_id", "role", "updated_at")
_LAST_DAY: Final = "expiration_date"
_DAY: Final = 24 * 60 * 60


def is_mem0(raw: object) -> bool:
    """Whether an object is a memory of mem0, or a result with some."""
    results = raw.get("results") if isinstance(raw, Mapping) else None
    one = results[0] if isinstance(results, LISTS) and results else raw
    return isinstance(one, Mapping) and {"id", "memory"} <= one.keys()


def mem0_items(raw: Mapping[str, Any], origin: Position) -> Iterator[MemoryItem]:
    """Yield an item for each memory, under its id."""
    if isinstance(raw.get("results"), LISTS):
        yield from read_each(numbered(raw["results"], origin), mem0_items)
        return
    scope = {part: text_of(raw, key, origin) for key, part in _SCOPE.items() if raw.get(key) is not None}
    item = text_item(
        origin=origin,
        id=text_of(raw, "id", origin),
        text=text_of(raw, "memory", origin),
        event_time=origin.event_time("created_at", raw.get("created_at")),
        scope=Scope(**scope),
        metadata={**{key: raw[key] for key in _KEPT if raw.get(key)}, **(raw.get("metadata") or {})},
    )
    last_day = raw.get(_LAST_DAY)
    # In mem0 a memory is there until this day has ended in UTC.
    yield replace(item, expires_at=origin.time(_LAST_DAY, last_day) + _DAY) if last_day else item


_LISTS: Final = ("storage", "messages", "knowledge", "history")
"""Keys of the lists of messages, in the order in which they are read."""
_SUMMARY: Final = "historical_summary"
_OF_MESSAGES: Final = ("cause_by", "send_to", "sent_from", "instruct_content")
_UNIQUE_LENGTH: Final = 16
"""Length from which an id names one message everywhere; shorter ones are numbers, or MetaGPT's `0` for none."""


def is_metagpt(raw: object) -> bool:
    """Whether an object is a memory, a queue or a brain memory."""
    if not isinstance(raw, Mapping):
        return False
    # A list under `messages` alone may be of any program.
    known = "storage" in raw or _SUMMARY in raw or {"messages", "dedupe"} <= raw.keys()
    return known and all(isinstance(raw.get(key), (*LISTS, type(None))) for key in _LISTS)


def read_metagpt(lines: Iterable[Line]) -> Iterator[MemoryItem]:
    """Yield an item for each message, and one for the summary of a brain memory."""
    seen: Counter[str] = Counter()

    def messages(raw: object, origin: Position) -> Iterator[MemoryItem]:
        yield _item_of_message(raw, origin, seen)

    def documents(raw: object, origin: Position) -> Iterator[MemoryItem]:
        if is_metagpt_message(raw):
            yield from messages(raw, origin)
            return
        if not isinstance(raw, Mapping) or not is_metagpt(raw):
            raise origin.error(
                "expected MetaGPT's memory (`storage`), message queue (a list) or brain memory (`history`)"
            )
        if summary := raw.get(_SUMMARY):
            if not isinstance(summary, str):
                raise origin.at(_SUMMARY).error(f"expected a text, found {type(summary).__name__}")
            yield MemoryItem(
                id=digest(summary),
                content_summary=summary,
                trust=TRUST[SourceKind.IMPORT],
                provenance=Provenance(kind=SourceKind.SUMMARY, name=origin.path.name),
            )
        for name in _LISTS:
            for item in read_each(numbered(raw.get(name) or (), origin.at(name)), messages):
                yield replace(item, metadata={**item.metadata, "kind": "knowledge"}) if name == "knowledge" else item

    return read_each(lines, documents)


def is_metagpt_message(raw: object) -> bool:
    """Whether a value is a message of MetaGPT or devmem, or its JSON as a text."""
    try:
        raw = _unwrapped(raw)
    except (ValueError, RecursionError):
        return False
    if not isinstance(raw, Mapping) or not {"content", "role"} <= raw.keys():
        return False
    # devmem's own form leaves out what is empty and names the class.
    return any(key in raw for key in _OF_MESSAGES) or str(raw.get("type")).endswith("Message")


def _unwrapped(raw: object) -> object:
    """Return what a text has as JSON, and of an entry with a priority in devmem's queue the message."""
    raw = json.loads(raw) if isinstance(raw, str) else raw
    return raw["message"] if isinstance(raw, Mapping) and {"message", "priority"} == raw.keys() else raw


def _item_of_message(raw: object, origin: Position, seen: Counter[str]) -> MemoryItem:
    try:
        raw = _unwrapped(raw)
    except (ValueError, RecursionError) as error:
        raise origin.error(f"not the JSON text of a message: {error}") from error
    if not isinstance(raw, Mapping):
        raise origin.error(f"expected a message of MetaGPT, found {type(raw).__name__}")
    key, own = time_key(raw), raw.get("id")
    # MetaGPT keeps no time: that of reading is not when it was said, and would make another item of it each time.
    time = origin.event_time(key, raw[key]) if key else None
    known = {name: value for name, value in raw.items() if name != key} | ({} if time is None else {"created_at": time})
    unread = {} if key is None or time is not None else {key: raw[key]}
    try:
        message = load_message(known).with_metadata(**unread)
    except MessageError as error:
        raise origin.error(str(error)) from error
    item = message_to_item(
        message,
        # The same file gives the same items again, also those of messages whose ids are not unique.
        item_id=own if isinstance(own, str) and len(own) >= _UNIQUE_LENGTH else unique_id(digest(raw), seen),
        scope=Scope(),
        summary=shorten(readable_text(message), SUMMARY_LENGTH),
        stored_at=message.created_at,
        timed=time is not None,
    )
    return replace(item, trust=TRUST[SourceKind.IMPORT])


def is_mcp_memory(raw: object) -> bool:
    """Whether an object is a line of the MCP project's memory server: an entity or a relation of its graph."""
    if not isinstance(raw, Mapping):
        return False
    is_relation = raw.get("type") == "relation" and {"from", "to", "relationType"} <= raw.keys()
    return is_relation or (raw.get("type") == "entity" and {"name", "observations"} <= raw.keys())


def mcp_memory_items(raw: object, origin: Position) -> Iterator[MemoryItem]:
    """Yield an item for each observation of an entity, for an entity without any, and for each relation."""
    raw = shaped(raw, is_mcp_memory, "an entity with `name` and `observations`, or a relation", origin)
    if raw["type"] == "relation":
        names = {key: text_of(raw, key, origin) for key in ("from", "relationType", "to")}
        text = f"{names['from']} {names['relationType'].replace('_', ' ')} {names['to']}"
        about = {"entity": names["from"], "relation": names["relationType"], "other_entity": names["to"]}
        yield text_item(origin=origin, id=digest("relation", names), text=text, metadata=about)
        return
    name, kind = text_of(raw, "name", origin), text_of(raw, "entityType", origin, default="")
    for observation in raw["observations"] or [kind]:
        about = {"entity": name, "entity_type": kind}
        yield text_item(
            origin=origin, id=digest("entity", name, observation), text=f"{name}: {observation}", metadata=about
        )


def is_keep(raw: object) -> bool:
    """Whether an object is a note of Google Keep."""
    return isinstance(raw, Mapping) and {"isTrashed", "userEditedTimestampUsec"} <= raw.keys()


def keep_items(raw: object, origin: Position) -> Iterator[MemoryItem]:
    """Yield the item of a note that is not in the trash: its title, its text and its list."""
    raw = shaped(raw, is_keep, "a note of Google Keep", origin)
    if raw["isTrashed"]:
        origin.leave("notes in the trash")
        return
    tasks = [one for one in raw.get("listContent") or () if isinstance(one, Mapping)]
    listed = [f"- [{'x' if one.get('isChecked') else ' '}] {one.get('text') or ''}" for one in tasks]
    text = "\n".join(filter(None, [raw.get("title"), raw.get("textContent"), *listed]))
    if not text.strip():
        origin.leave("notes without a text")
        return
    made = raw.get("createdTimestampUsec") or raw["userEditedTimestampUsec"]
    labels = [one["name"] for one in raw.get("labels") or () if isinstance(one, Mapping) and one.get("name")]
    yield text_item(
        origin=origin,
        id=digest("keep", made, raw.get("title"), text),
        text=text,
        event_time=origin.event_time("createdTimestampUsec", made / 1_000_000 if isinstance(made, int) else made),
        metadata={**({"title": raw["title"]} if raw.get("title") else {}), **({"tags": labels} if labels else {})},
    )
