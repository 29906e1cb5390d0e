"""Where items are kept: SQLite files, memory, and DevAll's JSON files."""

from devmem.collections.json_file import JsonCollection
from devmem.collections.opening import open_collection
from devmem.collections.protocol import Collection, CollectionInfo, Filter, SearchQuery, Unique, Weights
from devmem.collections.sqlite.collection import SqliteCollection

__all__ = [
    "Collection",
    "CollectionInfo",
    "Filter",
    "JsonCollection",
    "SearchQuery",
    "SqliteCollection",
    "Unique",
    "Weights",
    "open_collection",
]
