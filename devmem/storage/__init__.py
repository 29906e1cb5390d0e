"""Places that keep items durable and searchable: SQLite files, PostgreSQL, memory, and DevAll's JSON files."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.model.conditions import (
        Condition,
        Operator,
        Order,
        Scalar,
        above,
        absent,
        at_least,
        at_most,
        below,
        contains,
        contains_text,
        differs_from,
        one_of,
        present,
        starts_with,
    )
    from devmem.model.filters import Filter, event_key
    from devmem.model.items import version_hash
    from devmem.search.indexes.passages import passages_of
    from devmem.search.query import Ranking, SearchQuery, Weights
    from devmem.storage.erasure import ErasableCollection, EraseRequest, EraseResult, Residue, descendants
    from devmem.storage.json_file import JsonCollection
    from devmem.storage.opening import (
        CollectionOpener,
        CollectionOptions,
        DatabaseOpener,
        StoreMetadata,
        check_location,
        drop_location,
        file_of,
        inspect_location,
        open_collection,
    )
    from devmem.storage.outbox import (
        TABLE as OUTBOX_TABLE,
    )
    from devmem.storage.outbox import (
        Delivery,
        DeliveryPolicy,
        Entry,
        Outbox,
        deliver,
        examine_outbox,
        outbox_bodies,
    )
    from devmem.storage.protocol import (
        DEFAULT_HISTORY_DAYS,
        Collection,
        CollectionInfo,
        Durability,
        StatefulCollection,
        StateKey,
        StateTable,
        SupportsFieldIndex,
        VersionedCollection,
        states_of,
    )
    from devmem.storage.sidecar_db import read_transaction, write_transaction
    from devmem.storage.sqlite.collection import SqliteCollection
    from devmem.storage.writing import PreparedItem, Unique, check_deletion
else:
    __getattr__, __dir__ = _lazy_names(__name__)

__all__ = [
    "DEFAULT_HISTORY_DAYS",
    "OUTBOX_TABLE",
    "Collection",
    "CollectionInfo",
    "CollectionOpener",
    "CollectionOptions",
    "Condition",
    "DatabaseOpener",
    "Delivery",
    "DeliveryPolicy",
    "Durability",
    "Entry",
    "ErasableCollection",
    "EraseRequest",
    "EraseResult",
    "Filter",
    "JsonCollection",
    "Operator",
    "Order",
    "Outbox",
    "PreparedItem",
    "Ranking",
    "Residue",
    "Scalar",
    "SearchQuery",
    "SqliteCollection",
    "StateKey",
    "StateTable",
    "StatefulCollection",
    "StoreMetadata",
    "SupportsFieldIndex",
    "Unique",
    "VersionedCollection",
    "Weights",
    "above",
    "absent",
    "at_least",
    "at_most",
    "below",
    "check_deletion",
    "check_location",
    "contains",
    "contains_text",
    "deliver",
    "descendants",
    "differs_from",
    "drop_location",
    "event_key",
    "examine_outbox",
    "file_of",
    "inspect_location",
    "one_of",
    "open_collection",
    "outbox_bodies",
    "passages_of",
    "present",
    "read_transaction",
    "starts_with",
    "states_of",
    "version_hash",
    "write_transaction",
]
