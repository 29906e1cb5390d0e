"""Import, export and copy of items."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.stores.abilities import every_item
else:
    _ORIGINS = {
        "devmem.stores.abilities": "every_item",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)

__all__ = ["every_item"]
