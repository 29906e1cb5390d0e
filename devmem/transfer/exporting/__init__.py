"""Snapshots of a store's items: JSON that `devmem import` reads back, and Markdown for people."""

from devmem.transfer.exporting.markdown import markdown_parts
from devmem.transfer.exporting.snapshot import Snapshot, json_parts, snapshot_of

__all__ = ["Snapshot", "json_parts", "markdown_parts", "snapshot_of"]
