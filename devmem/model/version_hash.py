"""Telling two versions of an item apart."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from devmem.model.items import MemoryItem


def version_hash(item: MemoryItem) -> str:
    """Return the SHA-256 of all of an item that an update can change, as 64 hex digits.

    That is its content, metadata, indexed fields, scope, provenance, times of event and expiry, and trust.
    The id, the time of storing and the embedding do not count: an item that is stored again as it was is the same
    version.
    """
    times = (None if time is None else float(time) for time in (item.event_time, item.expires_at))
    parts = [
        item.content_hash,
        dict(item.metadata),
        asdict(item.scope),
        [item.provenance.kind.value, item.provenance.name, *item.provenance.parents],
        *times,
        float(item.trust),
    ]
    if item.indexed_fields is not None:
        parts.append({"indexed_fields": list(item.indexed_fields)})
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
