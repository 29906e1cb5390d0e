"""The JSON forms of versions, runs and differences."""

from __future__ import annotations

from devmem.model.versions import Change, ItemDifference, ItemVersion, RunInfo
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


def run_info_json(info: RunInfo) -> JsonObject:
    """Return the JSON form of a run; its times are in seconds since the epoch."""
    return {
        "run": info.run,
        "state": info.state.value,
        "actor": info.actor,
        "started_at": info.started_at,
        "ended_at": info.ended_at,
        "changes": info.changes,
    }


def difference_json(found: ItemDifference) -> JsonObject:
    """Return the JSON form of a difference: the operation, and the item before and after it."""
    return {
        "id": found.item_id,
        "operation": found.operation.value,
        "before": None if found.before is None else item_json(found.before),
        "after": None if found.after is None else item_json(found.after),
    }
