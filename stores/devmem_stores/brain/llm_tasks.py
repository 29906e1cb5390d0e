"""What a brain makes of texts: a title, whether two belong together, a sentence that stands alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from devmem.errors import ChatModelError
from devmem.stores import extract_summary, query_terms
from devmem_stores.brain.model import Model
from devmem_stores.brain.prompts import LanguageChoice, prompts_for

_VERDICT: Final = re.compile(r"\b(TRUE|FALSE)\b", re.IGNORECASE)
_SHARED: Final = 0.25
"""Without a model, texts are related when the shorter one shares so many of its terms with the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """A sentence after it was to be made understandable without its context."""

    text: str
    rewritten: bool
    """False when the sentence came back as it was because there is nobody to rewrite it."""
    reason: str = ""
    """Why it was not rewritten."""

    def __str__(self) -> str:
        return self.text


class LlmTasks:
    """Asks a language model, or does without one what can be done without."""

    def __init__(self, model: Model | None, language: LanguageChoice) -> None:
        self._model = model
        self._language: LanguageChoice = language

    def title(self, text: str, max_words: int) -> str:
        """Give a title of so many words; without a model, the text's most telling words in one line."""
        if self._model is None:
            return " ".join(extract_summary(text, max_words).split())
        prompts = prompts_for(text, self._language)
        answer = self._model.ask([prompts.title.format(words=max_words), prompts.data], text)
        return " ".join(answer.split()).strip("\"'“”《》「」")

    def is_related(self, one: str, two: str) -> bool:
        """Say whether two texts are about the same.

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
            raise ChatModelError(f"the language model was to say TRUE or FALSE, and said {answer[:100]!r}")
        return verdicts == {"TRUE"}

    def rewrite(self, sentence: str, context: str) -> Rewriting:
        """Put what a sentence leaves to its context into it; without a model it comes back unchanged, and says so.

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
