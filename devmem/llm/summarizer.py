"""Summaries of long texts: each window is summarized, and the summaries together, until one is left."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final, Literal

from devmem.llm.summary_prompts import LanguageChoice, SummaryPrompts, summary_prompts_for
from devmem.llm.text_model import TextModel
from devmem.text.summarizing import count_words, extract_summary
from devmem.text.windows import split_texts

SummaryMethod = Literal["model", "extract", "whole", "given"]
"""`model` or `extract` (selected sentences) made it; `whole` is a short text as it was; `given` is the caller's."""

_LOG: Final = logging.getLogger(__name__)
_PART_WORDS: Final = 100
"""Maximum number of words of a window's summary."""
_SLACK: Final = 20
"""Number of characters beyond a window with which a text is still summarized at once."""
_SHRINKS: Final = 0.9
"""A summary that keeps more than this share of the text has not made it shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarized:
    """A summary and the method that made it."""

    text: str
    method: SummaryMethod


class Summarizer:
    """Makes summaries with a language model, or without one by selecting sentences."""

    def __init__(
        self, model: TextModel | None, *, window: int = 1480, language: LanguageChoice = "auto", instruction: str = ""
    ) -> None:
        """Prepare a summarizer.

        Args:
            model: the language model; None selects sentences.
            window: maximum number of characters that the model summarizes at once.
            language: language of the prompts; `auto` detects that of the text.
            instruction: replaces the instruction of the prompts; `{words}` in it is the maximum number of words.
        """
        self._model, self._window, self._instruction = model, window, instruction
        self._language: LanguageChoice = language

    def summarize(self, text: str, *, max_words: int, keep_language: bool = True) -> Summarized:
        """Summarize a text in at most `max_words` words; a text that is short enough is returned unchanged.

        Where the model does not make it shorter, that is logged and sentences are selected instead.

        Raises:
            ChatModelError: the model gave no answer.
        """
        text = text.strip()
        if count_words(text) <= max_words:
            return Summarized(text=text, method="whole")
        if self._model is None:
            return Summarized(text=extract_summary(text, max_words), method="extract")
        found = self._with_model(self._model, text, max_words, keep_language)
        if found is not None:
            return Summarized(text=found, method="model")
        _LOG.warning("the language model does not shorten a text of %d characters; sentences are selected", len(text))
        return Summarized(text=extract_summary(text, max_words), method="extract")

    def _with_model(self, model: TextModel, text: str, max_words: int, keep_language: bool) -> str | None:
        """Return the model's summary; None when it does not make the text shorter."""
        shorter = text
        while len(shorter) > self._window + _SLACK:
            windows = split_texts(shorter, self._window)
            part_words = min(max_words // len(windows) + 1, _PART_WORDS)
            parts = "\n".join(self._asked(model, window, part_words, keep_language) for window in windows)
            if len(parts) > _SHRINKS * len(shorter):
                return None
            shorter = parts
        if count_words(shorter) <= max_words:
            return shorter
        summary = self._asked(model, shorter, max_words, keep_language)
        return summary if len(summary) <= _SHRINKS * len(text) else None

    def _asked(self, model: TextModel, text: str, max_words: int, keep_language: bool) -> str:
        if count_words(text) <= max_words:
            return text
        prompts: SummaryPrompts = summary_prompts_for(text, self._language)
        instruction = (self._instruction or prompts.summarize).replace("{words}", str(max_words))
        same = [prompts.same_language] if keep_language else []
        return model.ask([instruction, *same, prompts.data], text)
