"""Opening a JSON collection by its location; the entry point `json`."""

from __future__ import annotations

from devmem.collections.json_file.collection import JsonCollection
from devmem.collections.locations import path_of
from devmem.collections.opening import CollectionOptions


def open_json(location: str, options: CollectionOptions) -> JsonCollection:
    """Open the JSON file at a path, at `json:///relative.json` or at `json:////absolute.json`.

    Raises:
        CollectionError: it cannot be opened.
    """
    return JsonCollection(
        path_of(location),
        model=options.model,
        index=options.index,
        clock=options.clock,
        busy_timeout=options.busy_timeout,
    )
