"""Tasks of a conversation for a language model: a title, whether two texts are related, rewriting a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from devmem.errors import ChatModelError
from devmem.messages import Message
from devmem.models import SUMMARY_PROMPTS, Language, LanguageChoice, TextModel, prompt_language
from devmem.text import extract_summary, query_terms


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prompts:
    """Prompts of one language; the text that they are about is a separate message."""

    data: str
    """Part of every prompt: the text is not an instruction."""
    title: str
    """With the placeholder `words`."""
    related: str
    """Asks for TRUE or FALSE."""
    rewrite: str
    first: str
    second: str
    context: str
    sentence: str


_PROMPTS: Final[dict[Language, _Prompts]] = {
    "en": _Prompts(
        data=SUMMARY_PROMPTS["en"].data,
        title="Give the text a title in English of fewer than {words} words. Answer with the title alone.",
        related=(
            "Decide whether the second text is about what the first text is about. Answer with TRUE or FALSE alone."
        ),
        rewrite=(
            "Rewrite the sentence so that it is understood without the context: put what pronouns and omissions stand "
            "for in their place. Add nothing that neither says. Answer with the rewritten sentence alone, in its "
            "language."
        ),
        first="First text",
        second="Second text",
        context="Context",
        sentence="Sentence",
    ),
    "zh": _Prompts(
        data=SUMMARY_PROMPTS["zh"].data,
        title="请用中文为这段文本拟一个少于{words}字的标题。只输出标题。",
        related="请判断第二段文本与第一段文本谈的是否是同一件事。只输出 TRUE 或 FALSE。",
        rewrite="请改写句子,使其脱离上下文也能看懂:把代词和省略换成所指的内容,不要添加两者都没有的信息。只输出改写后的句子,使用原句的语言。",
        first="第一段文本",
        second="第二段文本",
        context="上下文",
        sentence="句子",
    ),
}


_VERDICT: Final = re.compile(r"\b(TRUE|FALSE)\b", re.IGNORECASE)
_SHARED: Final = 0.25
"""Share of the shorter text's terms that related texts have in common, where there is no model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """Result of rewriting a sentence so that it is understood without its context."""

    text: str
    rewritten: bool
    """Whether a model rewrote it; otherwise the sentence is unchanged."""
    reason: str = ""
    """Why it was not rewritten."""

    def __str__(self) -> str:
        return self.text


class LlmTasks:
    """Performs tasks with a language model, and without one where that is possible."""

    def __init__(self, model: TextModel | None, language: LanguageChoice) -> None:
        self._model = model
        self._language: LanguageChoice = language

    def _prompts(self, text: str) -> _Prompts:
        return _PROMPTS[prompt_language(text, self._language)]

    def title(self, text: str, max_words: int) -> str:
        """Return a title of at most `max_words` words; without a model, the most telling words of the text."""
        if self._model is None:
            return " ".join(extract_summary(text, max_words).split())
        prompts = self._prompts(text)
        answer = self._model.ask([prompts.title.format(words=max_words), prompts.data], text)
        return " ".join(answer.split()).strip("\"'“”《》「」")

    def is_related(self, one: str, two: str) -> bool:
        """Whether two texts are about the same.

        Raises:
            ChatModelError: the model gave no answer, or neither TRUE nor FALSE.
        """
        if self._model is None:
            return _share_terms(one, two)
        prompts = self._prompts(one + two)
        text = f"## {prompts.first}\n{two}\n\n## {prompts.second}\n{one}"
        answer = self._model.ask([prompts.related, prompts.data], text)
        verdicts = {found.upper() for found in _VERDICT.findall(answer)}
        if len(verdicts) != 1:
            raise ChatModelError(f"the language model was asked for TRUE or FALSE, and answered {answer[:100]!r}")
        return verdicts == {"TRUE"}

    def rewrite(self, sentence: str, context: str) -> Rewriting:
        """Resolve what a sentence leaves to its context; without a model it is unchanged, with the reason.

        Raises:
            ChatModelError: the model gave no answer.
        """
        if self._model is None:
            return Rewriting(text=sentence, rewritten=False, reason="no language model is configured (`llm`)")
        if not context.strip():
            return Rewriting(text=sentence, rewritten=False, reason="there is no context")
        prompts = self._prompts(sentence)
        text = f"## {prompts.context}\n{context}\n\n## {prompts.sentence}\n{sentence}"
        return Rewriting(text=self._model.ask([prompts.rewrite, prompts.data], text), rewritten=True)


def _share_terms(one: str, two: str) -> bool:
    first, second = set(query_terms(one)), set(query_terms(two))
    shared = len(first & second)
    return shared > 0 and shared >= _SHARED * min(len(first), len(second))


_TAGGED: Final = r"\[([A-Z]+)\]:\s*(.+)"


def to_int(value: object, default: int) -> int:
    """Return a value as a whole number, or `default` when it is not one."""
    try:
        return int(str(value))
    except ValueError:
        return default


def extract_info(text: str, pattern: str = _TAGGED) -> tuple[str | None, str]:
    """Return tag and content, all its lines, of `[TAG]: content`; any other text has no tag.

    `pattern` has two groups: the tag, and the content.
    """
    found = re.match(pattern, text, re.DOTALL)
    return (found[1], found[2]) if found else (None, text)


def to_metagpt_history_format(history: Iterable[Message]) -> str:
    """Return a history as JSON: a list of `{"content": ..., "role": ...}`."""
    return json.dumps([{"content": m.content, "role": m.role.value} for m in history], ensure_ascii=False)
