"""Answering without a model: the best-fitting remembered passages, quoted."""

from __future__ import annotations

from devmem.llm.base import ChatReply, ChatRequest
from devmem.messages import Role
from devmem.model.results import Hit
from devmem.text.analysis import mostly_unspaced, query_terms, terms
from devmem.text.sentences import split_sentences

_PASSAGES = 3
_PASSAGE_LENGTH = 400

_FOUND = {
    False: "Remembered passages that fit best (quoted; no language model is configured):",
    True: "最相关的记忆片段(原文引用;未配置语言模型):",
}
_NOTHING = {
    False: "Nothing fitting is remembered (no language model is configured).",
    True: "没有找到相关的记忆(未配置语言模型)。",
}


class ExtractiveChat:
    """Quotes what memory found, the best passages first, and says that it does."""

    def complete(self, request: ChatRequest) -> ChatReply:
        """Quote up to three passages of the recalled items."""
        asked = next((m.content for m in reversed(request.messages) if m.role is Role.USER), "")
        chinese = mostly_unspaced(asked)
        best = sorted(request.recalled, key=lambda hit: -hit.score)[:_PASSAGES]
        if not best:
            return ChatReply(text=_NOTHING[chinese], quoted=True)
        wanted = set(query_terms(asked))
        quotes = [f"- {_passage(hit, wanted)}" for hit in best]
        return ChatReply(text="\n".join([_FOUND[chinese], *quotes]), quoted=True)


def _passage(hit: Hit, wanted: set[str]) -> str:
    """Give the item's text, or of a long one the run of sentences with most of the wanted words."""
    text = hit.text()
    if len(text) <= _PASSAGE_LENGTH:
        return " ".join(text.split())
    sentences = split_sentences(text)
    worth = [len(wanted.intersection(terms(sentence))) for sentence in sentences]
    start = max(range(len(sentences)), key=worth.__getitem__)
    passage = sentences[start]
    for sentence in sentences[start + 1 :]:
        if len(passage) + len(sentence) > _PASSAGE_LENGTH:
            break
        passage += sentence
    return " ".join(passage[:_PASSAGE_LENGTH].split())
