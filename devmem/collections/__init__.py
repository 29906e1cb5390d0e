"""Places that keep items durable and searchable: SQLite files, memory, and DevAll's JSON files."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.collections.deletion import check_deletion
    from devmem.collections.erasure import ErasableCollection, Erasing, Erasure, Unreached, descendants
    from devmem.collections.fielded import FieldedCollection
    from devmem.collections.json_file.collection import JsonCollection
    from devmem.collections.locations import file_of
    from devmem.collections.opening import (
        CollectionOpener,
        CollectionOptions,
        DatabaseOpener,
        check_location,
        drop_location,
        inspect_location,
        open_collection,
    )
    from devmem.collections.prepared import PreparedItem
    from devmem.collections.protocol import DEFAULT_HISTORY_DAYS, Collection, CollectionInfo, Durability, Unique
    from devmem.collections.sqlite.collection import SqliteCollection
    from devmem.collections.states import StatefulCollection, StateKey, StateTable, states_of
    from devmem.collections.store_facts import StoreFacts
    from devmem.collections.transactions import read_transaction, write_transaction
    from devmem.collections.versioned import VersionedCollection
    from devmem.indexes.passages import passages_of
    from devmem.model.version_hash import version_hash
    from devmem.ranking import Ranking, Weights
    from devmem.search.conditions import (
        Condition,
        Operator,
        Scalar,
        above,
        at_least,
        at_most,
        below,
        differs_from,
        one_of,
        starts_with,
    )
    from devmem.search.filters import Filter, Order, event_key
    from devmem.search.query import SearchQuery
else:
    __getattr__, __dir__ = _lazy_names(__name__)

__all__ = [
    "DEFAULT_HISTORY_DAYS",
    "Collection",
    "CollectionInfo",
    "CollectionOpener",
    "CollectionOptions",
    "Condition",
    "DatabaseOpener",
    "Durability",
    "ErasableCollection",
    "Erasing",
    "Erasure",
    "FieldedCollection",
    "Filter",
    "JsonCollection",
    "Operator",
    "Order",
    "PreparedItem",
    "Ranking",
    "Scalar",
    "SearchQuery",
    "SqliteCollection",
    "StateKey",
    "StateTable",
    "StatefulCollection",
    "StoreFacts",
    "Unique",
    "Unreached",
    "VersionedCollection",
    "Weights",
    "above",
    "at_least",
    "at_most",
    "below",
    "check_deletion",
    "check_location",
    "descendants",
    "differs_from",
    "drop_location",
    "event_key",
    "file_of",
    "inspect_location",
    "one_of",
    "open_collection",
    "passages_of",
    "read_transaction",
    "starts_with",
    "states_of",
    "version_hash",
    "write_transaction",
]
