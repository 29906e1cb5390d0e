"""A vector store, a retriever and a history of messages for LangChain; needs the extra `langchain`."""

from devmem.adapters.hosts import require as _require

_require("langchain_core", package="langchain-core", extra="langchain")

from devmem.adapters.langchain.history import DevmemChatMessageHistory  # noqa: E402 - first the error that names it
from devmem.adapters.langchain.vectorstore import DevmemRetriever, DevmemVectorStore  # noqa: E402

__all__ = ["DevmemChatMessageHistory", "DevmemRetriever", "DevmemVectorStore"]
