"""Places that keep items durable and searchable: SQLite files, memory, and DevAll's JSON files."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.collections.json_file.collection import JsonCollection
    from devmem.collections.opening import CollectionOpener, CollectionOptions, open_collection
    from devmem.collections.prepared import PreparedItem
    from devmem.collections.protocol import Collection, CollectionInfo, Durability, Unique
    from devmem.collections.sqlite.collection import SqliteCollection
    from devmem.collections.transactions import read_transaction, write_transaction
    from devmem.indexes.passages import passages_of
    from devmem.ranking import Ranking, Weights
    from devmem.search.query import Filter, SearchQuery
else:
    __getattr__, __dir__ = _lazy_names(__name__)

__all__ = [
    "Collection",
    "CollectionInfo",
    "CollectionOpener",
    "CollectionOptions",
    "Durability",
    "Filter",
    "JsonCollection",
    "PreparedItem",
    "Ranking",
    "SearchQuery",
    "SqliteCollection",
    "Unique",
    "Weights",
    "open_collection",
    "passages_of",
    "read_transaction",
    "write_transaction",
]
