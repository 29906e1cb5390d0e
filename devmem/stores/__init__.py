"""The public names for authors of store types."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.config import (
        ChatConfig,
        ConfigModel,
        Duration,
        EmbeddingConfig,
        EmbeddingParams,
        IndexConfig,
        ViewConfig,
    )
    from devmem.embedding import Embedder, ModelIdentity, PassageEmbeddings, open_embedder
    from devmem.llm import ChatModel, ChatReply, ChatRequest, open_chat, open_chat_model
    from devmem.model.derivation import derived
    from devmem.model.field_paths import FieldText, is_path, texts_at
    from devmem.model.file_report import FileReport, damage, unfinished
    from devmem.model.items import Provenance, SnapshotBlock, SourceKind, Vector, content_hash, dump_item, load_item
    from devmem.model.keys import with_key
    from devmem.model.results import HitGroup, SearchReport, WriteStatus
    from devmem.model.trust import TRUST
    from devmem.recall import by_conversation
    from devmem.stores.collection_config import CollectionConfig, History, PlaceConfig
    from devmem.stores.collection_memory import CollectionMemory
    from devmem.stores.indexing import Indexing, IndexPlan, IndexProgress, IndexReport, IndexStep
    from devmem.stores.item_embeddings import embed_items
    from devmem.stores.keyed_memory import KeyedMemory
    from devmem.stores.keys_config import KeyRule, KeysConfig
    from devmem.stores.memory import MemoryBase, Progress
    from devmem.stores.payload_items import AGENT_KEY, item_from, skipped, turns_of
    from devmem.stores.query import MemoryQuery, QueryEmbedding
    from devmem.stores.retention_config import ExpiryConfig, RetentionConfig
    from devmem.stores.setup import StoreSetup
    from devmem.stores.versioned import versions_of, viewed
    from devmem.text.analysis import mostly_unspaced, query_terms
    from devmem.text.backoff import Backoff
    from devmem.text.display import indented, one_line
    from devmem.text.encoding import UnreadableError, decode_text, describe_guess
    from devmem.text.frames import last_sender, strip_frames
    from devmem.text.sentences import shorten, split_sentences
    from devmem.text.summarizing import count_words, extract_summary
    from devmem.text.tokens import estimate_tokens
else:
    __getattr__, __dir__ = _lazy_names(__name__)

__all__ = [
    "AGENT_KEY",
    "TRUST",
    "Backoff",
    "ChatConfig",
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "CollectionConfig",
    "CollectionMemory",
    "ConfigModel",
    "Duration",
    "Embedder",
    "EmbeddingConfig",
    "EmbeddingParams",
    "ExpiryConfig",
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
    "RetentionConfig",
    "SearchReport",
    "SnapshotBlock",
    "SourceKind",
    "StoreSetup",
    "UnreadableError",
    "Vector",
    "ViewConfig",
    "WriteStatus",
    "by_conversation",
    "content_hash",
    "count_words",
    "damage",
    "decode_text",
    "derived",
    "describe_guess",
    "dump_item",
    "embed_items",
    "estimate_tokens",
    "extract_summary",
    "indented",
    "is_path",
    "item_from",
    "last_sender",
    "load_item",
    "mostly_unspaced",
    "one_line",
    "open_chat",
    "open_chat_model",
    "open_embedder",
    "query_terms",
    "shorten",
    "skipped",
    "split_sentences",
    "strip_frames",
    "texts_at",
    "turns_of",
    "unfinished",
    "versions_of",
    "viewed",
    "with_key",
]
