"""The public names for authors of store types."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.config.agent import ChatConfig, ViewConfig
    from devmem.config.base import ConfigModel, Duration
    from devmem.config.facts import FactKeepingConfig, FactsConfig
    from devmem.config.store import EmbeddingConfig, EmbeddingParams, IndexConfig
    from devmem.model.fields import FieldText, is_path, texts_at
    from devmem.model.items import (
        AGENT_KEY,
        FACT_KEY,
        LEAST_TRUST,
        PINNED,
        TRUST,
        Provenance,
        SnapshotBlock,
        SourceKind,
        Vector,
        agent_of,
        content_hash,
        dump_item,
        is_pinned,
        is_quarantined,
        load_item,
        with_key,
    )
    from devmem.model.results import (
        FileReport,
        HitGroup,
        RelatedStatement,
        SearchReport,
        WriteStatus,
        damage,
        unfinished,
    )
    from devmem.model.versions import derived
    from devmem.models.chat import ChatModel, ChatReply, ChatRequest
    from devmem.models.chat_providers import open_chat, open_chat_model
    from devmem.models.embedder import Embedder, ModelIdentity, PassageEmbeddings
    from devmem.models.embedding_providers import open_embedder
    from devmem.models.facts import Said
    from devmem.search.merging import by_conversation
    from devmem.stores.abilities import versions_of, viewed
    from devmem.stores.collection_memory import CollectionMemory
    from devmem.stores.config import (
        CollectionConfig,
        ConflictConfig,
        ExpiryConfig,
        History,
        KeyRule,
        KeysConfig,
        PlaceConfig,
        RetentionConfig,
    )
    from devmem.stores.embedding_queue import embed_items
    from devmem.stores.fact_queue import FactStatus
    from devmem.stores.facts import FactKeepingMemory, exchange_of
    from devmem.stores.indexing import Indexing, IndexPlan, IndexProgress, IndexReport, IndexStep
    from devmem.stores.items import item_from, skipped, turns_of
    from devmem.stores.keyed_memory import KeyedMemory
    from devmem.stores.memory import MemoryBase, MemoryQuery, Progress, QueryEmbedding, StoreSetup
    from devmem.stores.recalls import RecallRecorder
    from devmem.stores.tombstones import without_erased
else:
    __getattr__, __dir__ = _lazy_names(__name__)

__all__ = [
    "AGENT_KEY",
    "FACT_KEY",
    "LEAST_TRUST",
    "PINNED",
    "TRUST",
    "ChatConfig",
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "CollectionConfig",
    "CollectionMemory",
    "ConfigModel",
    "ConflictConfig",
    "Duration",
    "Embedder",
    "EmbeddingConfig",
    "EmbeddingParams",
    "ExpiryConfig",
    "FactKeepingConfig",
    "FactKeepingMemory",
    "FactStatus",
    "FactsConfig",
    "FieldText",
    "FileReport",
    "History",
    "HitGroup",
    "IndexConfig",
    "IndexPlan",
    "IndexProgress",
    "IndexReport",
    "IndexStep",
    "Indexing",
    "KeyRule",
    "KeyedMemory",
    "KeysConfig",
    "MemoryBase",
    "MemoryQuery",
    "ModelIdentity",
    "PassageEmbeddings",
    "PlaceConfig",
    "Progress",
    "Provenance",
    "QueryEmbedding",
    "RecallRecorder",
    "RelatedStatement",
    "RetentionConfig",
    "Said",
    "SearchReport",
    "SnapshotBlock",
    "SourceKind",
    "StoreSetup",
    "Vector",
    "ViewConfig",
    "WriteStatus",
    "agent_of",
    "by_conversation",
    "content_hash",
    "damage",
    "derived",
    "dump_item",
    "embed_items",
    "exchange_of",
    "is_path",
    "is_pinned",
    "is_quarantined",
    "item_from",
    "load_item",
    "open_chat",
    "open_chat_model",
    "open_embedder",
    "skipped",
    "texts_at",
    "turns_of",
    "unfinished",
    "versions_of",
    "viewed",
    "with_key",
    "without_erased",
]
