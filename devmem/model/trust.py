"""How far a memory may be relied on, by where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from devmem.model.items import SourceKind

TRUST: Final[Mapping[SourceKind, float]] = MappingProxyType(
    {
        SourceKind.USER: 1.0,
        SourceKind.NODE: 0.8,
        SourceKind.SUMMARY: 0.8,
        SourceKind.FILE: 0.6,
        SourceKind.IMPORT: 0.6,
        SourceKind.TOOL: 0.4,
    }
)
"""From 0 to 1: a user's own words first, then what agents conclude, then documents, then what tools return, which
anybody on the network may have written. An attachment's `min_trust` is compared with it."""
