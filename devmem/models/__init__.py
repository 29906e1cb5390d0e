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
    from devmem.models.embedder import AsymmetricEmbedder as AsymmetricEmbedder
    from devmem.models.embedder import Embedder as Embedder
    from devmem.models.embedder import ModelIdentity as ModelIdentity
    from devmem.models.embedder import TokenEmbedder as TokenEmbedder
    from devmem.models.embedder import TokenEmbedding as TokenEmbedding
    from devmem.models.embedder import query_embedder as query_embedder
    from devmem.models.embedding_providers import open_embedder as open_embedder
    from devmem.models.embedding_providers import register_embedding_provider as register_embedding_provider
    from devmem.models.given_vectors import checked_vector as checked_vector
    from devmem.models.reranking import Reranker as Reranker
    from devmem.models.reranking import register_reranker as register_reranker
    from devmem.models.summarizer import SUMMARY_PROMPTS as SUMMARY_PROMPTS
    from devmem.models.summarizer import LanguageChoice as LanguageChoice
    from devmem.models.summarizer import Summarizer as Summarizer
    from devmem.models.summarizer import SummaryMethod as SummaryMethod
    from devmem.models.summarizer import prompt_language as prompt_language
    from devmem.models.write_checks import WriteCheck as WriteCheck
    from devmem.models.write_checks import register_write_check as register_write_check
    from devmem.text.summarizing import split_texts as split_texts
else:
    _ORIGINS = {
        "devmem.model.interactions": "Language",
        "devmem.models.chat": "ChatModel ChatReply ChatRequest Quotation StreamingChatModel TextModel ToolCall Usage",
        "devmem.models.embedder": (
            "AsymmetricEmbedder Embedder ModelIdentity TokenEmbedder TokenEmbedding query_embedder"
        ),
        "devmem.models.embedding_providers": "open_embedder register_embedding_provider",
        "devmem.models.given_vectors": "checked_vector",
        "devmem.models.reranking": "Reranker register_reranker",
        "devmem.models.summarizer": "SUMMARY_PROMPTS LanguageChoice Summarizer SummaryMethod prompt_language",
        "devmem.models.write_checks": "WriteCheck register_write_check",
        "devmem.text.summarizing": "split_texts",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
