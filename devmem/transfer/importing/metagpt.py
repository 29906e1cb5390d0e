"""JSON that MetaGPT writes: a role's memory, a message queue, a brain memory; and devmem's dumps of the first two.

=================  =============================================================================================
document           form
=================  =============================================================================================
memory             an object with `storage`, a list of messages (`messages` in devmem's dumps)
queue              a list of messages, each an object or the JSON text of one
brain memory       an object with `history` and `knowledge`, lists of messages, and `historical_summary`, a text
=================  =============================================================================================

Everything else in them is state of the program, or, as a brain memory's `config`, holds keys: it is not read.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from devmem.errors import MessageError
from devmem.model.items import MemoryItem, Provenance, Scope, SourceKind
from devmem.model.message_items import message_to_item, readable_text
from devmem.model.message_json import load_message
from devmem.model.trust import TRUST
from devmem.text.sentences import shorten
from devmem.transfer.importing.origin import Origin
from devmem.transfer.importing.records import SUMMARY_LENGTH

_LISTS: Final = ("storage", "messages", "knowledge", "history")
"""Keys of the lists of messages, in the order in which they are read."""
_SUMMARY: Final = "historical_summary"
_OF_MESSAGES: Final = ("cause_by", "send_to", "sent_from", "instruct_content")
_TIMES: Final = ("created_at", "timestamp")
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
    try:
        message = load_message(raw)
    except MessageError as error:
        raise origin.error(str(error)) from error
    item = message_to_item(
        message,
        item_id=_id_of(raw, seen),
        scope=Scope(),
        summary=shorten(readable_text(message), SUMMARY_LENGTH),
        stored_at=message.created_at,
    )
    # MetaGPT keeps no time: that of reading is not when it was said.
    known = any(raw.get(key) is not None for key in _TIMES)
    return replace(item, event_time=item.event_time if known else None, trust=TRUST[SourceKind.IMPORT])


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
        id=hashlib.sha256(summary.encode("utf-8", "surrogatepass")).hexdigest()[:32],
        content_summary=summary,
        trust=TRUST[SourceKind.IMPORT],
        provenance=Provenance(kind=SourceKind.SUMMARY, name=origin.path.name),
    )
