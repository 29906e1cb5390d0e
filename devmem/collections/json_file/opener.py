"""Opening a JSON collection by its location; the entry point `json`."""

from __future__ import annotations

from typing import Final

from devmem.collections.json_file.collection import JsonCollection
from devmem.collections.opening import CollectionOptions
from devmem.errors import CollectionError

_PREFIX: Final = "json:///"


def open_json(location: str, options: CollectionOptions) -> JsonCollection:
    """Open the JSON file at a path, at `json:///relative.json` or at `json:////absolute.json`.

    Raises:
        CollectionError: it cannot be opened.
    """
    if "://" in location and not location.startswith(_PREFIX):
        raise CollectionError(location, "a file's URL has three slashes and its path, as in json:///memory/store.json.")
    return JsonCollection(
        location.removeprefix(_PREFIX),
        model=options.model,
        index=options.index,
        clock=options.clock,
        busy_timeout=options.busy_timeout,
    )
