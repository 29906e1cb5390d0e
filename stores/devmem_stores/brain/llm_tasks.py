"""Tasks of a language model: a title, whether two texts are related, a sentence that needs no context."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from devmem.errors import ChatModelError
from devmem.llm import LanguageChoice, TextModel
from devmem.stores import extract_summary, query_terms
from devmem_stores.brain.prompts import prompts_for

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

    def title(self, text: str, max_words: int) -> str:
        """Return a title of at most `max_words` words; without a model, the most telling words of the text."""
        if self._model is None:
            return " ".join(extract_summary(text, max_words).split())
        prompts = prompts_for(text, self._language)
        answer = self._model.ask([prompts.title.format(words=max_words), prompts.data], text)
        return " ".join(answer.split()).strip("\"'“”《》「」")

    def is_related(self, one: str, two: str) -> bool:
        """Whether two texts are about the same.

        Raises:
            ChatModelError: the model gave no answer, or neither TRUE nor FALSE.
        """
        if self._model is None:
            return _share_terms(one, two)
        prompts = prompts_for(one + two, self._language)
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
        prompts = prompts_for(sentence, self._language)
        text = f"## {prompts.context}\n{context}\n\n## {prompts.sentence}\n{sentence}"
        return Rewriting(text=self._model.ask([prompts.rewrite, prompts.data], text), rewritten=True)


def _share_terms(one: str, two: str) -> bool:
    first, second = set(query_terms(one)), set(query_terms(two))
    shared = len(first & second)
    return shared > 0 and shared >= _SHARED * min(len(first), len(second))
