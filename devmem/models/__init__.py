"""Providers of models: texts to vectors, messages to text, hits to scores; all plugins."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.model.interactions import Language as Language
    from devmem.models.chat import ChatModel as ChatModel
    from devmem.models.chat import ChatReply as ChatReply
    from devmem.models.chat import ChatRequest as ChatRequest
    from devmem.models.chat import Quotation as Quotation
    from devmem.models.chat import StreamingChatModel as StreamingChatModel
    from devmem.models.chat import TextModel as TextModel
    from devmem.models.chat import ToolCall as ToolCall
    from devmem.models.chat import Usage as Usage
    from devmem.models.chat_providers import PROVIDERS as PROVIDERS
    from devmem.models.chat_providers import ExtractiveChat as ExtractiveChat
    from devmem.models.chat_providers import open_chat as open_chat
    from devmem.models.chat_providers import open_chat_model as open_chat_model
    from devmem.models.embedder import AsymmetricEmbedder as AsymmetricEmbedder
    from devmem.models.embedder import CombinedEmbedder as CombinedEmbedder
    from devmem.models.embedder import Embedder as Embedder
    from devmem.models.embedder import ModelIdentity as ModelIdentity
    from devmem.models.embedder import PassageEmbeddings as PassageEmbeddings
    from devmem.models.embedder import TokenCodes as TokenCodes
    from devmem.models.embedder import TokenEmbedder as TokenEmbedder
    from devmem.models.embedder import TokenEmbedding as TokenEmbedding
    from devmem.models.embedder import query_embedder as query_embedder
    from devmem.models.embedder import token_codes as token_codes
    from devmem.models.embedding_providers import EmbeddingProvider as EmbeddingProvider
    from devmem.models.embedding_providers import embedding_provider_names as embedding_provider_names
    from devmem.models.embedding_providers import open_embedder as open_embedder
    from devmem.models.embedding_providers import register_embedding_provider as register_embedding_provider
    from devmem.models.given_vectors import checked_vector as checked_vector
    from devmem.models.reranking import Reranker as Reranker
    from devmem.models.reranking import RerankerFactory as RerankerFactory
    from devmem.models.reranking import open_reranker as open_reranker
    from devmem.models.reranking import register_reranker as register_reranker
    from devmem.models.reranking import reranker_names as reranker_names
    from devmem.models.summarizer import SUMMARY_PROMPTS as SUMMARY_PROMPTS
    from devmem.models.summarizer import LanguageChoice as LanguageChoice
    from devmem.models.summarizer import Summarized as Summarized
    from devmem.models.summarizer import Summarizer as Summarizer
    from devmem.models.summarizer import SummaryMethod as SummaryMethod
    from devmem.models.summarizer import prompt_language as prompt_language
    from devmem.models.write_checks import WriteCheck as WriteCheck
    from devmem.models.write_checks import WriteCheckFactory as WriteCheckFactory
    from devmem.models.write_checks import open_write_check as open_write_check
    from devmem.models.write_checks import register_write_check as register_write_check
    from devmem.models.write_checks import write_check_names as write_check_names
    from devmem.text.summarizing import split_texts as split_texts
else:
    _ORIGINS = {
        "devmem.model.interactions": "Language",
        "devmem.models.chat": "ChatModel ChatReply ChatRequest Quotation StreamingChatModel TextModel ToolCall Usage",
        "devmem.models.chat_providers": "PROVIDERS ExtractiveChat open_chat open_chat_model",
        "devmem.models.embedder": (
            "AsymmetricEmbedder CombinedEmbedder Embedder ModelIdentity PassageEmbeddings TokenCodes "
            "TokenEmbedder TokenEmbedding query_embedder token_codes"
        ),
        "devmem.models.embedding_providers": (
            "EmbeddingProvider embedding_provider_names open_embedder register_embedding_provider"
        ),
        "devmem.models.given_vectors": "checked_vector",
        "devmem.models.reranking": "Reranker RerankerFactory open_reranker register_reranker reranker_names",
        "devmem.models.summarizer": (
            "SUMMARY_PROMPTS LanguageChoice Summarized Summarizer SummaryMethod prompt_language"
        ),
        "devmem.models.write_checks": (
            "WriteCheck WriteCheckFactory open_write_check register_write_check write_check_names"
        ),
        "devmem.text.summarizing": "split_texts",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
