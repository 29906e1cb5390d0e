"""DevAll's names for authors of store types: a class written for DevAll (ChatDev 2) runs with its imports changed.

```python
from devmem.stores.devall import MemoryBase, MemoryItem, MemoryStoreConfig
```
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devmem.model import items
from devmem.model.items import MemoryContentSnapshot
from devmem.model.results import MemoryWritePayload
from devmem.stores import memory
from devmem.stores.memory import StoreSetup as MemoryStoreConfig

__all__ = ["MemoryBase", "MemoryContentSnapshot", "MemoryItem", "MemoryStoreConfig", "MemoryWritePayload"]


class MemoryBase(memory.MemoryBase):
    """The base of a store class, with DevAll's attributes `store` and `embedding`."""

    embedding: object = None

    @property
    def store(self) -> MemoryStoreConfig:
        """The declaration that the store was made of."""
        return self.setup


class MemoryItem(items.MemoryItem):
    """An item that is made as DevAll's are: by position, and with a `timestamp`."""

    __slots__ = ()

    def __init__(
        self,
        id: str = "",  # noqa: A002 - DevAll's name
        content_summary: str = "",
        metadata: Mapping[str, Any] | None = None,
        embedding: Any = None,  # noqa: ANN401 - a list or an array
        timestamp: float | None = None,
        input_snapshot: MemoryContentSnapshot | None = None,
        output_snapshot: MemoryContentSnapshot | None = None,
        **fields: Any,  # noqa: ANN401 - those of devmem's
    ) -> None:
        """Take DevAll's fields; `timestamp` is in seconds since the epoch, None for now."""
        if timestamp is not None:
            fields["created_at"] = timestamp
        super().__init__(
            id=id,
            content_summary=content_summary,
            metadata=metadata or {},
            embedding=embedding,
            input_snapshot=input_snapshot,
            output_snapshot=output_snapshot,
            **fields,
        )
