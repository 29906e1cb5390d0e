"""Import, export and copy of items."""

from devmem.transfer.filling import every_item

__all__ = ["every_item"]
