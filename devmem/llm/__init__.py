"""Chat models: messages in, an answer out."""

from devmem.llm.base import ChatModel, ChatReply, ChatRequest
from devmem.llm.extractive import ExtractiveChat
from devmem.llm.factory import PROVIDERS, open_chat, open_chat_model
from devmem.llm.quotation import Quotation

__all__ = [
    "PROVIDERS",
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "ExtractiveChat",
    "Quotation",
    "open_chat",
    "open_chat_model",
]
