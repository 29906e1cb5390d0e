"""The JSON forms of versions."""

from __future__ import annotations

from devmem.model.versions import Change, ItemVersion
from devmem.views.items import JsonObject, item_json


def version_json(version: ItemVersion) -> JsonObject:
    """Return the JSON form of a version: its item, and the changes that began and ended it."""
    ended = version.ended
    return {
        "item": item_json(version.item),
        "began": change_json(version.began),
        "ended": None if ended is None else change_json(ended),
    }


def change_json(change: Change) -> JsonObject:
    """Return the JSON form of a change; `at` is in seconds since the epoch."""
    return {"operation": change.operation.value, "at": change.at, "run": change.run, "actor": change.actor}
