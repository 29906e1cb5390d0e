"""Providers of models: texts to vectors, messages to text, hits to scores; all plugins."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.model.interactions import Language
    from devmem.models.chat import (
        ChatModel,
        ChatReply,
        ChatRequest,
        Quotation,
        StreamingChatModel,
        TextModel,
        ToolCall,
        Usage,
    )
    from devmem.models.chat_providers import PROVIDERS, ExtractiveChat, open_chat, open_chat_model
    from devmem.models.embedder import (
        AsymmetricEmbedder,
        CombinedEmbedder,
        Embedder,
        ModelIdentity,
        PassageEmbeddings,
        TokenCodes,
        TokenEmbedder,
        TokenEmbedding,
        query_embedder,
        token_codes,
    )
    from devmem.models.embedding_providers import (
        EmbeddingProvider,
        embedding_provider_names,
        open_embedder,
        register_embedding_provider,
    )
    from devmem.models.given_vectors import checked_vector
    from devmem.models.reranking import Reranker, RerankerFactory, open_reranker, register_reranker, reranker_names
    from devmem.models.summarizer import (
        SUMMARY_PROMPTS,
        LanguageChoice,
        Summarized,
        Summarizer,
        SummaryMethod,
        prompt_language,
    )
    from devmem.models.write_checks import (
        WriteCheck,
        WriteCheckFactory,
        open_write_check,
        register_write_check,
        write_check_names,
    )
    from devmem.text.summarizing import split_texts
else:
    __getattr__, __dir__ = _lazy_names(__name__)

__all__ = [
    "PROVIDERS",
    "SUMMARY_PROMPTS",
    "AsymmetricEmbedder",
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "CombinedEmbedder",
    "Embedder",
    "EmbeddingProvider",
    "ExtractiveChat",
    "Language",
    "LanguageChoice",
    "ModelIdentity",
    "PassageEmbeddings",
    "Quotation",
    "Reranker",
    "RerankerFactory",
    "StreamingChatModel",
    "Summarized",
    "Summarizer",
    "SummaryMethod",
    "TextModel",
    "TokenCodes",
    "TokenEmbedder",
    "TokenEmbedding",
    "ToolCall",
    "Usage",
    "WriteCheck",
    "WriteCheckFactory",
    "checked_vector",
    "embedding_provider_names",
    "open_chat",
    "open_chat_model",
    "open_embedder",
    "open_reranker",
    "open_write_check",
    "prompt_language",
    "query_embedder",
    "register_embedding_provider",
    "register_reranker",
    "register_write_check",
    "reranker_names",
    "split_texts",
    "token_codes",
    "write_check_names",
]
