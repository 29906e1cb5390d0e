"""The form of `devmem export`: `{"format": "devmem-export", "version", "store", "type", "items": [...], "count"}`.

`fields` are the paths of the metadata by which the store is searched; they are left out where there are none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from devmem.model.field_paths import is_path
from devmem.model.items import MemoryItem, load_item
from devmem.transfer.importing.origin import Origin

FORMAT: Final = "devmem-export"
VERSION: Final = 1
FIELDS_KEY: Final = "fields"


def is_export(raw: object) -> bool:
    """Whether a document has this form."""
    return isinstance(raw, Mapping) and raw.get("format") == FORMAT


def count_exported(document: object) -> int:
    """Count the items of an export; 0 when the document is none."""
    items = document.get("items") if isinstance(document, Mapping) else None
    return len(items) if isinstance(items, list) else 0


def exported_fields(document: object, origin: Origin) -> tuple[str, ...]:
    """Return the fields by which an exported store was searched; none of any other document.

    Raises:
        DataFileError: they are no paths.
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
