"""Where items are kept: SQLite files, memory, and DevAll's JSON files."""

from devmem.collections.json_file.collection import JsonCollection
from devmem.collections.opening import open_collection
from devmem.collections.protocol import Collection, CollectionInfo, Unique
from devmem.collections.sqlite.collection import SqliteCollection
from devmem.indexes.passages import passages_of
from devmem.ranking import Ranking, Weights
from devmem.search.query import Filter, SearchQuery

__all__ = [
    "Collection",
    "CollectionInfo",
    "Filter",
    "JsonCollection",
    "Ranking",
    "SearchQuery",
    "SqliteCollection",
    "Unique",
    "Weights",
    "open_collection",
    "passages_of",
]
