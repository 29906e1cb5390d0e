"""The form of `devmem export`: `{"format": "devmem-export", "version", "store", "type", "items": [...], "count"}`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from devmem.model.items import MemoryItem, load_item
from devmem.transfer.importing.origin import Origin

FORMAT: Final = "devmem-export"
VERSION: Final = 1


def is_export(raw: object) -> bool:
    """Whether a document has this form."""
    return isinstance(raw, Mapping) and raw.get("format") == FORMAT


def count_exported(document: object) -> int:
    """Count the items of an export; 0 when the document is none."""
    items = document.get("items") if isinstance(document, Mapping) else None
    return len(items) if isinstance(items, list) else 0


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
