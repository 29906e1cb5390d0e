"""Places that keep items durable and searchable: SQLite files, PostgreSQL, memory, and DevAll's JSON files."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.model.conditions import Condition as Condition
    from devmem.model.conditions import Operator as Operator
    from devmem.model.conditions import Order as Order
    from devmem.model.conditions import Scalar as Scalar
    from devmem.model.conditions import above as above
    from devmem.model.conditions import absent as absent
    from devmem.model.conditions import at_least as at_least
    from devmem.model.conditions import at_most as at_most
    from devmem.model.conditions import below as below
    from devmem.model.conditions import contains as contains
    from devmem.model.conditions import contains_text as contains_text
    from devmem.model.conditions import differs_from as differs_from
    from devmem.model.conditions import one_of as one_of
    from devmem.model.conditions import present as present
    from devmem.model.conditions import starts_with as starts_with
    from devmem.model.filters import Filter as Filter
    from devmem.model.filters import event_key as event_key
    from devmem.model.items import version_hash as version_hash
    from devmem.search.indexes.passages import passages_of as passages_of
    from devmem.search.query import Ranking as Ranking
    from devmem.search.query import SearchQuery as SearchQuery
    from devmem.search.query import Weights as Weights
    from devmem.storage.erasure import EraseRequest as EraseRequest
    from devmem.storage.erasure import EraseResult as EraseResult
    from devmem.storage.erasure import Residue as Residue
    from devmem.storage.erasure import descendants as descendants
    from devmem.storage.json_file import JsonCollection as JsonCollection
    from devmem.storage.opening import CollectionOpener as CollectionOpener
    from devmem.storage.opening import CollectionOptions as CollectionOptions
    from devmem.storage.opening import DatabaseOpener as DatabaseOpener
    from devmem.storage.opening import StoreMetadata as StoreMetadata
    from devmem.storage.opening import check_location as check_location
    from devmem.storage.opening import drop_location as drop_location
    from devmem.storage.opening import file_of as file_of
    from devmem.storage.opening import inspect_location as inspect_location
    from devmem.storage.opening import open_collection as open_collection
    from devmem.storage.pending import STATE_FILE as STATE_FILE
    from devmem.storage.pending import Delivery as Delivery
    from devmem.storage.pending import DeliveryPolicy as DeliveryPolicy
    from devmem.storage.pending import Entry as Entry
    from devmem.storage.pending import Outbox as Outbox
    from devmem.storage.pending import deliver as deliver
    from devmem.storage.pending import examine_pending as examine_pending
    from devmem.storage.protocol import DEFAULT_HISTORY_DAYS as DEFAULT_HISTORY_DAYS
    from devmem.storage.protocol import Collection as Collection
    from devmem.storage.protocol import CollectionInfo as CollectionInfo
    from devmem.storage.protocol import Durability as Durability
    from devmem.storage.protocol import StateKey as StateKey
    from devmem.storage.protocol import SupportsFieldIndex as SupportsFieldIndex
    from devmem.storage.sqlite.collection import SqliteCollection as SqliteCollection
    from devmem.storage.versions import StatefulCollection as StatefulCollection
    from devmem.storage.versions import StateTable as StateTable
    from devmem.storage.versions import VersionedCollection as VersionedCollection
    from devmem.storage.versions import states_of as states_of
    from devmem.storage.writing import PreparedItem as PreparedItem
    from devmem.storage.writing import Unique as Unique
    from devmem.storage.writing import check_deletion as check_deletion
else:
    _ORIGINS = {
        "devmem.model.conditions": (
            "Condition Operator Order Scalar above absent at_least at_most below contains contains_text "
            "differs_from one_of present starts_with"
        ),
        "devmem.model.filters": "Filter event_key",
        "devmem.model.items": "version_hash",
        "devmem.search.indexes.passages": "passages_of",
        "devmem.search.query": "Ranking SearchQuery Weights",
        "devmem.storage.erasure": "EraseRequest EraseResult Residue descendants",
        "devmem.storage.json_file": "JsonCollection",
        "devmem.storage.opening": (
            "CollectionOpener CollectionOptions DatabaseOpener StoreMetadata check_location drop_location file_of "
            "inspect_location open_collection"
        ),
        "devmem.storage.pending": "STATE_FILE Delivery DeliveryPolicy Entry Outbox deliver examine_pending",
        "devmem.storage.protocol": (
            "DEFAULT_HISTORY_DAYS Collection CollectionInfo Durability StateKey SupportsFieldIndex"
        ),
        "devmem.storage.sqlite.collection": "SqliteCollection",
        "devmem.storage.versions": "StatefulCollection StateTable VersionedCollection states_of",
        "devmem.storage.writing": "PreparedItem Unique check_deletion",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
