"""Opening chat models by the name of their provider."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pydantic import SecretStr

from devmem.config.agent import ChatConfig
from devmem.config.store import GuardCheckConfig, RerankerConfig
from devmem.errors import ChatModelError
from devmem.model.interactions import Language, labelled_text
from devmem.model.message import Message, Role
from devmem.model.results import Hit
from devmem.models.chat import MAX_RETRIES, TIMEOUT, ChatModel, ChatReply, ChatRequest, Quotation
from devmem.text.analysis import mostly_unspaced, query_terms, split_sentences, term_weight, terms
from devmem.text.patterns import lazy_pattern
from devmem.text.query_text import QueryText

_PASSAGES: Final = 3
_PASSAGES_PASSED_ON: Final = 5
"""Maximum number of passages of an answer to nodes that quoted some already."""
_PASSAGE_LENGTH: Final = 400
"""Characters."""
_RELATED: Final = 0.2
"""Least cosine of an item that shares no word with the question; unrelated texts mostly have less."""
_LENT: Final = 0.1
"""Least score contribution of the turns around such an item."""
_NOT_ASKED: Final = frozenset({"memory", "workflow"})
"""Sources of messages that hold no question: the block of memories, and the prompts of a node."""
_LABEL: Final = lazy_pattern(r"^(?:Input|Output|输入|输出)[:：]", re.MULTILINE)

_FOUND: Final = {
    False: "Remembered passages that fit best (quoted; no language model is configured):",
    True: "最相关的记忆片段(原文引用;未配置语言模型):",
}
_NOTHING: Final = {
    False: "No relevant memories found (no language model is configured).",
    True: "没有找到相关的记忆(未配置语言模型)。",
}
_QUOTATION: Final = lazy_pattern(
    rf"(?:\w[\w ]{{0,30}}[:：] *)?(?:{'|'.join(re.escape(head) for head in (*_FOUND.values(), *_NOTHING.values()))})"
    r"(?:\s*\n\s*- .*)*"
)
"""An earlier answer of this provider."""


class ExtractiveChat:
    """Quotes the passages that memory and the nodes before found, the best first, and says that it does."""

    def complete(self, request: ChatRequest) -> ChatReply:
        """Quote the best passages: up to three of the recalled items, up to five where the input quotes some as well.

        What repeats the question, shares nothing with it, or is an earlier answer of this provider is not quoted: a
        board's last entries are recalled whatever is asked.
        """
        said = [m for m in request.messages if m.role is Role.USER and m.source not in _NOT_ASKED]
        quotations = [found for message in said if (found := Quotation.in_message(message))]
        asked = _question(said, quotations)
        wanted = set(query_terms(QueryText.of(asked).asked))
        hits = sorted(request.recalled, key=lambda hit: -hit.score)
        chinese = mostly_unspaced(asked)
        language: Language = "zh" if chinese else "en"
        fitting = (_QUOTATION.sub("", labelled_text(hit, language)).strip() for hit in hits if _fits(hit, wanted))
        recalled = [_passage(text, wanted) for text in fitting if text]
        passages = _merged(Quotation.joined(quotations).passages, recalled[:_PASSAGES], wanted)
        lines = [_FOUND[chinese], *(f"- {passage}" for passage in passages)] if passages else [_NOTHING[chinese]]
        return ChatReply(text="\n".join(lines), quotation=Quotation(question=asked, passages=tuple(passages)))


def _question(said: Sequence[Message], quotations: Sequence[Quotation]) -> str:
    """Return what is asked: the last message that says something of its own, else what was quoted for."""
    own = [message.content for message in said if Quotation.in_message(message) is None]
    return own[-1] if own else Quotation.joined(quotations).question


def _fits(hit: Hit, wanted: set[str]) -> bool:
    """Whether an item adds something to the question, and shares a word, meaning or context with it."""
    summary = _QUOTATION.sub("", hit.item.content_summary)
    passage = hit.passage or "" if summary == hit.item.content_summary else ""
    said = set(query_terms(_LABEL.sub(" ", f"{summary}\n{passage}")))
    if said and said <= wanted:
        return False
    if _shared(said, wanted) > 0:
        return True
    if hit.similarity is None and hit.lexical is None:
        # Without a signal to judge by, a store is trusted, unless it returns its last items whatever is asked.
        return hit.recency is None
    lent = sum(hit.parts.get(part, 0.0) for part in ("window", "answered"))
    return (hit.similarity or 0.0) >= _RELATED or lent >= _LENT


def _shared(said: set[str], wanted: set[str]) -> float:
    """Weigh the words that a text and the question share; a single Chinese character is not a word."""
    return sum(1.0 for term in said & wanted if term_weight(term) == 1.0)


def _merged(quoted: Sequence[str], recalled: Sequence[str], wanted: set[str]) -> list[str]:
    """Put quoted and recalled passages together: those that share most words with the question, each once."""
    if not quoted:
        return list(recalled)
    shared = {text: _shared(set(terms(text)), wanted) for text in (*quoted, *recalled)}
    fitting = [text for text, count in shared.items() if count] or list(shared)
    return sorted(fitting, key=lambda text: -shared[text])[:_PASSAGES_PASSED_ON]


def _passage(text: str, wanted: set[str]) -> str:
    """Return an item's text, or of a long one the run of sentences with most of the wanted words."""
    if len(text) <= _PASSAGE_LENGTH:
        return " ".join(text.split())
    sentences = split_sentences(text)
    shared = [len(wanted.intersection(terms(sentence))) for sentence in sentences]
    start = max(range(len(sentences)), key=shared.__getitem__)
    passage = sentences[start]
    for sentence in sentences[start + 1 :]:
        if len(passage) + len(sentence) > _PASSAGE_LENGTH:
            break
        passage += sentence
    return " ".join(passage[:_PASSAGE_LENGTH].split())


PROVIDERS = ("extractive", "openai")


def open_chat_model(
    provider: str,
    *,
    model: str | None = None,
    api_key: SecretStr | None = None,
    base_url: str | None = None,
    timeout: float = TIMEOUT,
    max_retries: int = MAX_RETRIES,
) -> ChatModel:
    """Open a chat model; an unknown provider with a `base_url` is taken to be OpenAI-compatible.

    `timeout` (seconds for one request) and `max_retries` are for services.

    Raises:
        ChatModelError: the provider is not known, or the model has no name or no key.
        MissingExtraError: the provider's package is not installed.
    """
    if provider == "extractive":
        return ExtractiveChat()
    if provider != "openai" and base_url is None:
        raise ChatModelError(
            f"unknown chat provider {provider!r}. Possible: {', '.join(PROVIDERS)}; a service that speaks OpenAI's "
            "protocol works under any name with its `base_url`."
        )
    if not model:
        raise ChatModelError(f"provider {provider!r} needs the model's name: set `name` (or `model`).")
    # Imported here: a store without a chat model starts sooner.
    from devmem.models.openai_chat import OpenAIChat

    return OpenAIChat(model, api_key=api_key, base_url=base_url, timeout=timeout, max_retries=max_retries)


def open_chat(config: ChatConfig) -> ChatModel:
    """Open the chat model that a store's `llm:` block names; raises what `open_chat_model` raises."""
    return open_chat_model(config.provider, model=config.model, api_key=config.api_key, base_url=config.base_url)


def open_waited_for(config: RerankerConfig | GuardCheckConfig) -> ChatModel:
    """Open the chat model that a search or a write waits for, which is given up early where it is slow."""
    return open_chat_model(
        config.provider,
        model=config.model,
        api_key=config.api_key,
        base_url=config.base_url,
        timeout=config.timeout,
        max_retries=1,
    )
