"""The public names for authors of store types."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.config.agent import ChatConfig as ChatConfig
    from devmem.config.agent import ViewConfig as ViewConfig
    from devmem.config.base import ConfigModel as ConfigModel
    from devmem.config.base import Duration as Duration
    from devmem.config.store import EmbeddingConfig as EmbeddingConfig
    from devmem.config.store import EmbeddingParams as EmbeddingParams
    from devmem.config.store import IndexConfig as IndexConfig
    from devmem.model.fields import texts_at as texts_at
    from devmem.model.items import AGENT_KEY as AGENT_KEY
    from devmem.model.items import FACT_KEY as FACT_KEY
    from devmem.model.items import LEAST_TRUST as LEAST_TRUST
    from devmem.model.items import PINNED as PINNED
    from devmem.model.items import TRUST as TRUST
    from devmem.model.items import Provenance as Provenance
    from devmem.model.items import SnapshotBlock as SnapshotBlock
    from devmem.model.items import SourceKind as SourceKind
    from devmem.model.items import Vector as Vector
    from devmem.model.items import agent_of as agent_of
    from devmem.model.items import content_hash as content_hash
    from devmem.model.items import dump_item as dump_item
    from devmem.model.items import is_pinned as is_pinned
    from devmem.model.items import load_item as load_item
    from devmem.model.items import with_key as with_key
    from devmem.model.results import FileReport as FileReport
    from devmem.model.results import HitGroup as HitGroup
    from devmem.model.results import SearchReport as SearchReport
    from devmem.model.results import WriteStatus as WriteStatus
    from devmem.model.results import unfinished as unfinished
    from devmem.model.times import parse_time as parse_time
    from devmem.model.twins import as_async as as_async
    from devmem.model.versions import derived as derived
    from devmem.models.chat import ChatModel as ChatModel
    from devmem.models.chat import ChatReply as ChatReply
    from devmem.models.chat import ChatRequest as ChatRequest
    from devmem.models.chat_providers import open_chat as open_chat
    from devmem.models.chat_providers import open_chat_model as open_chat_model
    from devmem.models.embedder import Embedder as Embedder
    from devmem.models.embedder import ModelIdentity as ModelIdentity
    from devmem.models.embedder import PassageEmbeddings as PassageEmbeddings
    from devmem.models.embedding_providers import open_embedder as open_embedder
    from devmem.models.facts import Said as Said
    from devmem.stores.collection_memory import CollectionMemory as CollectionMemory
    from devmem.stores.config import CollectionConfig as CollectionConfig
    from devmem.stores.config import ExpiryConfig as ExpiryConfig
    from devmem.stores.config import FactKeepingConfig as FactKeepingConfig
    from devmem.stores.config import HistoryDays as HistoryDays
    from devmem.stores.config import KeysConfig as KeysConfig
    from devmem.stores.config import PlaceConfig as PlaceConfig
    from devmem.stores.config import RetentionConfig as RetentionConfig
    from devmem.stores.embedding_queue import embed_items as embed_items
    from devmem.stores.facts import FactKeepingMemory as FactKeepingMemory
    from devmem.stores.facts import exchange_of as exchange_of
    from devmem.stores.indexing import Indexing as Indexing
    from devmem.stores.indexing import IndexPlan as IndexPlan
    from devmem.stores.indexing import IndexProgress as IndexProgress
    from devmem.stores.indexing import IndexReport as IndexReport
    from devmem.stores.indexing import IndexStep as IndexStep
    from devmem.stores.items import answer_of as answer_of
    from devmem.stores.items import item_from as item_from
    from devmem.stores.items import skipped as skipped
    from devmem.stores.items import turns_of as turns_of
    from devmem.stores.keyed_memory import KeyedMemory as KeyedMemory
    from devmem.stores.memory import MemoryBase as MemoryBase
    from devmem.stores.memory import MemoryQuery as MemoryQuery
    from devmem.stores.memory import Progress as Progress
    from devmem.stores.memory import StoreSetup as StoreSetup
    from devmem.stores.query_embedding import QueryEmbedding as QueryEmbedding
    from devmem.stores.query_embedding import QueryEmbeddings as QueryEmbeddings
    from devmem.stores.recalls import RecallRecorder as RecallRecorder
    from devmem.stores.tombstones import without_erased as without_erased
else:
    _ORIGINS = {
        "devmem.config.agent": "ChatConfig ViewConfig",
        "devmem.config.base": "ConfigModel Duration",
        "devmem.config.store": "EmbeddingConfig EmbeddingParams IndexConfig",
        "devmem.model.fields": "texts_at",
        "devmem.model.items": (
            "AGENT_KEY FACT_KEY LEAST_TRUST PINNED TRUST Provenance SnapshotBlock SourceKind Vector agent_of "
            "content_hash dump_item is_pinned load_item with_key"
        ),
        "devmem.model.results": "FileReport HitGroup SearchReport WriteStatus unfinished",
        "devmem.model.times": "parse_time",
        "devmem.model.twins": "as_async",
        "devmem.model.versions": "derived",
        "devmem.models.chat": "ChatModel ChatReply ChatRequest",
        "devmem.models.chat_providers": "open_chat open_chat_model",
        "devmem.models.embedder": "Embedder ModelIdentity PassageEmbeddings",
        "devmem.models.embedding_providers": "open_embedder",
        "devmem.models.facts": "Said",
        "devmem.stores.collection_memory": "CollectionMemory",
        "devmem.stores.config": (
            "CollectionConfig ExpiryConfig FactKeepingConfig HistoryDays KeysConfig PlaceConfig RetentionConfig"
        ),
        "devmem.stores.embedding_queue": "embed_items",
        "devmem.stores.facts": "FactKeepingMemory exchange_of",
        "devmem.stores.indexing": "Indexing IndexPlan IndexProgress IndexReport IndexStep",
        "devmem.stores.items": "answer_of item_from skipped turns_of",
        "devmem.stores.keyed_memory": "KeyedMemory",
        "devmem.stores.memory": "MemoryBase MemoryQuery Progress StoreSetup",
        "devmem.stores.query_embedding": "QueryEmbedding QueryEmbeddings",
        "devmem.stores.recalls": "RecallRecorder",
        "devmem.stores.tombstones": "without_erased",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
