"""Documents of hosts as records of a memory: their metadata stand beside each other, the rest under the host's key."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from devmem import MemoryRecord
from devmem.stores import Provenance, SourceKind

KEY: Final = "key"
"""Metadata key of a document's id, which names it within its scope."""
_OWN: Final = "devmem."
_META: Final = "meta"


def source_of(host: str) -> Provenance:
    """Return the origin of a host's documents, which are trusted as files are (0.6): nobody said them."""
    return Provenance(kind=SourceKind.FILE, name=host)


def is_reserved(name: str, host: str) -> bool:
    """Whether a name of a document's metadata means something else in a memory."""
    return name in (KEY, host) or name.startswith(_OWN)


def metadata_key(name: str, host: str) -> str:
    """Return the metadata key, or path, under which a name of a document's metadata is kept."""
    return f"{host}.{_META}.{name}" if is_reserved(name.partition(".")[0], host) else name


def kept_metadata(given: Mapping[str, Any], host: str, document: str, rest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a document's record.

    Args:
        given: the document's metadata; times become text in ISO 8601.
        host: the key of what a record cannot hold otherwise.
        document: the document's id, for errors.
        rest: that.

    Raises:
        ValueError: JSON cannot hold a value.
    """
    meta = {str(name): _json(value, document, str(name)) for name, value in given.items()}
    reserved = {name: value for name, value in meta.items() if is_reserved(name, host)}
    plain = {name: value for name, value in meta.items() if name not in reserved}
    return {**plain, host: {**rest, **({_META: reserved} if reserved else {})}}


def given_metadata(record: MemoryRecord, host: str) -> dict[str, Any]:
    """Return the metadata that a document was given with."""
    plain = {name: value for name, value in record.metadata.items() if not is_reserved(name, host)}
    return {**plain, **rest_of(record, host).get(_META, {})}


def rest_of(record: MemoryRecord, host: str) -> Mapping[str, Any]:
    """Return what is kept under the host's key; empty for a record that is no document of the host."""
    found = record.metadata.get(host)
    return found if isinstance(found, Mapping) else {}


def _json(value: Any, document: str, name: str) -> Any:  # noqa: ANN401 - any value
    if isinstance(value, Mapping):
        return {str(key): _json(inner, document, name) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json(inner, document, name) for inner in value]
    if isinstance(value, date):
        return value.isoformat()
    if value is None or isinstance(value, str | int | float):
        return value
    raise ValueError(f"document {document!r}: JSON cannot hold {name!r}, a {type(value).__name__}")
