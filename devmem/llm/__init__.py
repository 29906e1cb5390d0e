"""Chat models: messages in, an answer out."""

from devmem.llm.base import ChatModel, ChatReply, ChatRequest, StreamingChatModel, ToolCall, Usage
from devmem.llm.extractive import ExtractiveChat
from devmem.llm.factory import PROVIDERS, open_chat, open_chat_model
from devmem.llm.quotation import Quotation
from devmem.llm.summarizer import Summarized, Summarizer, SummaryMethod
from devmem.llm.summary_prompts import SUMMARY_PROMPTS, LanguageChoice, prompt_language
from devmem.llm.text_model import TextModel
from devmem.model.side_labels import Language
from devmem.text.windows import split_texts

__all__ = [
    "PROVIDERS",
    "SUMMARY_PROMPTS",
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "ExtractiveChat",
    "Language",
    "LanguageChoice",
    "Quotation",
    "StreamingChatModel",
    "Summarized",
    "Summarizer",
    "SummaryMethod",
    "TextModel",
    "ToolCall",
    "Usage",
    "open_chat",
    "open_chat_model",
    "prompt_language",
    "split_texts",
]
