"""The form of `devmem export`: `{"format": "devmem-export", "version", "store", "type", "items": [...], "count"}`.

`fields` are the paths of the metadata by which the store is searched; they are left out where there are none.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from devmem.errors import MessageError
from devmem.model.fields import is_path
from devmem.model.items import TRUST, MemoryItem, Provenance, Scope, SourceKind, load_item
from devmem.model.message_json import load_message, message_to_item, readable_text
from devmem.model.times import time_key
from devmem.text.analysis import SUMMARY_LENGTH, shorten
from devmem.transfer.importing.records import Origin, text_item, text_of

FORMAT: Final = "devmem-export"
VERSION: Final = 1
FIELDS_KEY: Final = "fields"


def is_export(raw: object) -> bool:
    """Whether a document has this form."""
    return isinstance(raw, Mapping) and raw.get("format") == FORMAT


def count_exported(document: object) -> int:
    """Count the items of an export; 0 for any other document."""
    items = document.get("items") if isinstance(document, Mapping) else None
    return len(items) if isinstance(items, list) else 0


def exported_fields(document: object, origin: Origin) -> tuple[str, ...]:
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


def read_export(document: object, origin: Origin) -> Iterator[MemoryItem]:
    """Return the items exactly as they were, without vectors: nothing says which model made them.

    Raises:
        DataFileError: it is no export, one of a newer version, or one with missing or damaged items.
    """
    if not is_export(document) or not isinstance(document, Mapping) or not isinstance(document.get("items"), list):
        raise origin.error(f"expected an object with `format` = {FORMAT!r} and `items`")
    version, items = document.get("version"), document["items"]
    if version != VERSION:
        raise origin.error(f"the export has version {version!r}, known is {VERSION}: upgrade devmem.")
    if document.get("count") != len(items):
        raise origin.error(f"the export says it has {document.get('count')!r} items, but there are {len(items)}")
    for at, raw in enumerate(items):
        yield _item(raw, replace(origin, entry=f"items[{at}]"))


def _item(raw: Any, origin: Origin) -> MemoryItem:  # noqa: ANN401 - whatever the file holds
    if not isinstance(raw, Mapping) or not isinstance(raw.get("id"), str):
        raise origin.error("expected an item with an `id`")
    try:
        return load_item({key: value for key, value in raw.items() if key != "embedding"})
    except ValidationError as error:
        raise origin.invalid(error) from error


_SCOPE: Final = {"user_id": "user", "agent_id": "agent", "run_id": "run"}
_KEPT: Final = ("categories", "actor_id", "role", "updated_at")
_LAST_DAY: Final = "expiration_date"
_DAY: Final = 24 * 60 * 60


def is_mem0(document: object) -> bool:
    """Whether a document has this form."""
    memories = _memories(document)
    return bool(memories) and isinstance(memories[0], Mapping) and {"id", "memory"} <= memories[0].keys()


def count_mem0(document: object) -> int:
    """Count the memories."""
    return len(_memories(document))


def read_mem0(document: object, origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each memory, under its id.

    Raises:
        DataFileError: something is not as mem0 returns it.
    """
    for at, raw in enumerate(_memories(document)):
        here = replace(origin, entry=f"[{at}]")
        if not isinstance(raw, Mapping):
            raise here.error(f"expected a memory, found {type(raw).__name__}")
        yield _mem0_memories_item(raw, here)


def _mem0_memories_item(raw: Mapping[str, Any], origin: Origin) -> MemoryItem:
    given = raw.get("metadata") or {}
    if not isinstance(given, Mapping):
        raise origin.error(f"'metadata': expected an object, found a value of type {type(given).__name__}")
    scope = {part: text_of(raw, key, origin) for key, part in _SCOPE.items() if raw.get(key) is not None}
    item = text_item(
        origin=origin,
        id=text_of(raw, "id", origin),
        text=text_of(raw, "memory", origin),
        event_time=origin.event_time("created_at", raw.get("created_at")),
        scope=Scope(**scope),
        metadata={**{key: raw[key] for key in _KEPT if raw.get(key)}, **given},
    )
    last_day = raw.get(_LAST_DAY)
    # In mem0 a memory is there until this day has ended in UTC.
    return replace(item, expires_at=origin.time(_LAST_DAY, last_day) + _DAY) if last_day else item


def _memories(document: object) -> list[object]:
    found = document.get("results") if isinstance(document, Mapping) else document
    return found if isinstance(found, list) else []


_LISTS: Final = ("storage", "messages", "knowledge", "history")
"""Keys of the lists of messages, in the order in which they are read."""
_SUMMARY: Final = "historical_summary"
_OF_MESSAGES: Final = ("cause_by", "send_to", "sent_from", "instruct_content")
_UNIQUE_LENGTH: Final = 16
"""Length from which an id names one message everywhere; shorter ones are numbers, or MetaGPT's `0` for none."""


def is_metagpt(document: object) -> bool:
    """Whether a document is a memory, a queue or a brain memory."""
    if isinstance(document, list):
        return bool(document) and all(map(_is_message, document))
    if not isinstance(document, Mapping):
        return False
    # A list under `messages` alone may be anybody's.
    known = "storage" in document or _SUMMARY in document or {"messages", "dedupe"} <= document.keys()
    return known and all(isinstance(document.get(key), list | None) for key in _LISTS)


def count_messages(document: object) -> int:
    """Count the messages of a document, and the summary of a brain memory."""
    summary = isinstance(document, Mapping) and bool(document.get(_SUMMARY))
    return sum(len(messages) for _, messages in _lists(document)) + summary


def read_metagpt(document: object, origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each message, and one for the summary of a brain memory.

    Raises:
        DataFileError: it has not this form, or a message cannot be read.
    """
    if not is_metagpt(document):
        raise origin.error("expected MetaGPT's memory (`storage`), message queue (a list) or brain memory (`history`)")
    if isinstance(document, Mapping) and (summary := document.get(_SUMMARY)):
        yield _item_of_summary(summary, replace(origin, entry=_SUMMARY))
    seen: Counter[str] = Counter()
    for name, messages in _lists(document):
        for at, raw in enumerate(messages):
            here = replace(origin, entry=f"{name}[{at}]")
            item = _item_of_message(_plain(raw, here), here, seen)
            yield replace(item, metadata={**item.metadata, "kind": "knowledge"}) if name == "knowledge" else item


def _lists(document: object) -> list[tuple[str, Sequence[Any]]]:
    if isinstance(document, Mapping):
        return [(key, document[key]) for key in _LISTS if isinstance(document.get(key), list)]
    return [("", document)] if isinstance(document, list) else []


def _is_message(raw: object) -> bool:
    if isinstance(raw, str):
        try:
            raw = json.loads(raw)
        except (ValueError, RecursionError):
            return False
    raw = _unwrapped(raw)
    if not isinstance(raw, Mapping) or not {"content", "role"} <= raw.keys():
        return False
    # devmem's own form leaves out what is empty and names the class.
    return any(key in raw for key in _OF_MESSAGES) or str(raw.get("type")).endswith("Message")


def _plain(raw: object, origin: Origin) -> Mapping[str, Any]:
    if isinstance(raw, str):
        try:
            raw = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise origin.error(f"not the JSON text of a message: {error}") from error
    raw = _unwrapped(raw)
    if not isinstance(raw, Mapping):
        raise origin.error(f"expected a message, found {type(raw).__name__}")
    return raw


def _unwrapped(raw: object) -> object:
    """Return the message of an entry with a priority in devmem's queue."""
    return raw["message"] if isinstance(raw, Mapping) and {"message", "priority"} == raw.keys() else raw


def _item_of_message(raw: Mapping[str, Any], origin: Origin, seen: Counter[str]) -> MemoryItem:
    key = time_key(raw)
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
        item_id=_id_of(raw, seen),
        scope=Scope(),
        summary=shorten(readable_text(message), SUMMARY_LENGTH),
        stored_at=message.created_at,
        timed=time is not None,
    )
    return replace(item, trust=TRUST[SourceKind.IMPORT])


def _id_of(raw: Mapping[str, Any], seen: Counter[str]) -> str:
    """Return a message's id where it is unique, else a digest by which the same file gives the same items again."""
    own = raw.get("id")
    if isinstance(own, str) and len(own) >= _UNIQUE_LENGTH:
        return own
    digest = hashlib.sha256(json.dumps(raw, sort_keys=True).encode()).hexdigest()[:32]
    seen[digest] += 1
    return digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"


def _item_of_summary(summary: object, origin: Origin) -> MemoryItem:
    if not isinstance(summary, str):
        raise origin.error(f"expected a text, found {type(summary).__name__}")
    return MemoryItem(
        id=hashlib.sha256(summary.encode()).hexdigest()[:32],
        content_summary=summary,
        trust=TRUST[SourceKind.IMPORT],
        provenance=Provenance(kind=SourceKind.SUMMARY, name=origin.path.name),
    )
