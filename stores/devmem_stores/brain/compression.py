"""Compression of a conversation: older messages become summaries, and summaries become summaries of a higher level."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from devmem import MissingExtraError
from devmem.errors import ChatModelError
from devmem.models import SUMMARY_PROMPTS, Language, LanguageChoice, Summarized, Summarizer, TextModel, prompt_language
from devmem.text import Backoff, estimate_tokens, extract_summary, query_terms
from devmem_stores.brain.config import BrainBusyError, BrainConfig, ChatKey
from devmem_stores.brain.state import BrainState, Entry, Summary, expiring_sources, least_trust, spoken
from devmem_stores.brain.state_store import StateStore

_LONGEST_PAUSE: Final = 300.0
_STEPS_A_WRITE: Final = 5
"""One step for the messages, and one for each level that it fills; a longer backlog continues with the next write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of compression: messages, or summaries of one level, to summarize."""

    entries: tuple[Entry, ...] = ()
    summaries: tuple[Summary, ...] = ()

    def text(self) -> str:
        """Return the text to summarize, a line for each message or summary."""
        return "\n".join([*(spoken(e.message) for e in self.entries), *(s.text for s in self.summaries)])

    def summary(self, made: Summarized) -> Summary:
        """Return the summary with its time span and sources."""
        times = [e.message.created_at for e in self.entries]
        sources = dict.fromkeys(
            [*(e.item_id for e in self.entries), *(source for s in self.summaries for source in s.sources)]
        )
        return Summary(
            id=uuid4().hex,
            text=made.text,
            level=max((s.level for s in self.summaries), default=0) + 1,
            start=min([*times, *(s.start for s in self.summaries)]),
            end=max([*times, *(s.end for s in self.summaries)]),
            messages=len(self.entries) + sum(s.messages for s in self.summaries),
            sources=tuple(sources),
            method=made.method,
            trust=least_trust(self.entries, self.summaries),
            expiring=expiring_sources(self.entries, self.summaries),
        )


def next_step(state: BrainState, config: BrainConfig, *, all_older: bool = False) -> Step | None:
    """Return the next step of compression; None when the state is small enough.

    The latest messages are never summarized, and the messages of one exchange only together. With `all_older` every
    older message is summarized, however few they are.
    """
    for level in sorted({summary.level for summary in state.summaries}):
        alike = [summary for summary in state.summaries if summary.level == level]
        if len(alike) >= config.summaries_per_level:
            return Step(summaries=tuple(alike[: config.summaries_per_level]))
    older = _whole_items(state.entries, len(state.entries) - config.keep_messages)
    if not older:
        return None
    if len(older) >= config.max_messages:
        return Step(entries=_whole_items(state.entries, config.max_messages) or older)
    too_long = sum(estimate_tokens(spoken(entry.message)) for entry in state.entries) > config.max_tokens
    return Step(entries=older) if all_older or too_long else None


def _whole_items(entries: tuple[Entry, ...], count: int) -> tuple[Entry, ...]:
    """Return at most `count` of the first messages, none of them without the rest of its exchange."""
    count = min(max(count, 0), len(entries))
    while 0 < count < len(entries) and entries[count - 1].item_id == entries[count].item_id:
        count -= 1
    return entries[:count]


def replaced(state: BrainState, step: Step, summary: Summary) -> BrainState:
    """Return the state with a summary in place of its sources; a state that does not hold all of these is unchanged."""
    gone = {(entry.item_id, entry.message.id) for entry in step.entries}
    kept = tuple(entry for entry in state.entries if (entry.item_id, entry.message.id) not in gone)
    merged = {old.id for old in step.summaries}
    others = [old for old in state.summaries if old.id not in merged]
    if len(state.entries) - len(kept) != len(gone) or len(state.summaries) - len(others) != len(merged):
        return state
    at = next((n for n, old in enumerate(state.summaries) if old.id in merged), len(others))
    return replace(state, entries=kept, summaries=(*others[:at], summary, *others[at:]))


def given_summary(text: str, state: BrainState, older: Sequence[Entry], now: float) -> Summary:
    """Return a summary that the caller wrote, of everything that was summarized before and of older messages."""
    times = [entry.message.created_at for entry in older]
    return Summary(
        id=uuid4().hex,
        text=text,
        level=max((summary.level for summary in state.summaries), default=1),
        start=min([*times, *(summary.start for summary in state.summaries)], default=now),
        end=max([*times, *(summary.end for summary in state.summaries)], default=now),
        messages=len(older) + sum(summary.messages for summary in state.summaries),
        sources=tuple(
            dict.fromkeys(
                [*(source for summary in state.summaries for source in summary.sources), *(e.item_id for e in older)]
            )
        ),
        method="given",
        trust=least_trust(older, state.summaries),
        expiring=expiring_sources(older, state.summaries),
    )


_NOTHING_LEFT: Final = "…"
"""Text of a summary every sentence of which tombstones keep out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressed:
    """Result of compressing a conversation."""

    messages: int = 0
    """Number of messages that were summarized."""
    failure: Exception | None = None
    """Error that ended it; messages that are not summarized stay in the history."""


class Compressor:
    """Compresses conversations; the model is called while nothing is locked, and backs off after a failure."""

    def __init__(
        self,
        config: BrainConfig,
        states: StateStore,
        summarizer: Summarizer,
        clock: Callable[[], float],
        *,
        without_erased: Callable[[str, ChatKey], str],
    ) -> None:
        """Take what is compressed, and how; `without_erased` leaves out what tombstones keep out."""
        self._config, self._states, self._summarizer = config, states, summarizer
        self._without_erased = without_erased
        self._busy: set[ChatKey] = set()
        self._lock = threading.Lock()
        self._backoff = Backoff(longest=_LONGEST_PAUSE, clock=clock)
        self._last: Exception | None = None

    def compress(self, key: ChatKey, state: BrainState, *, all_older: bool = False) -> Compressed:
        """Summarize until the state is small enough; a conversation that another thread compresses is left to it.

        With `all_older` all but the latest messages are summarized, and the model is called whatever failed before.
        """
        if next_step(state, self._config, all_older=all_older) is None:
            return Compressed()
        with self._lock:
            if not all_older and self._backoff.left:
                return Compressed(failure=self._last)
            if key in self._busy:
                return Compressed()
            self._busy.add(key)
        try:
            return self._compressed(key, state, all_older)
        finally:
            with self._lock:
                self._busy.discard(key)

    def _compressed(self, key: ChatKey, state: BrainState, all_older: bool) -> Compressed:
        messages = steps = 0
        while (step := next_step(state, self._config, all_older=all_older)) is not None:
            if steps == _STEPS_A_WRITE and not all_older:
                break
            steps += 1
            try:
                made = self._summarizer.summarize(step.text(), max_words=self._config.summary_words)
                made = replace(made, text=self._without_erased(made.text, key) or _NOTHING_LEFT)
                put = self._put(key, step, step.summary(made))
            except (ChatModelError, MissingExtraError, BrainBusyError) as error:
                self._failed(error)
                return Compressed(messages=messages, failure=error)
            self._worked()
            if put is None:
                return Compressed(messages=messages)
            messages += len(step.entries)
            state = put
        return Compressed(messages=messages)

    def _put(self, key: ChatKey, step: Step, summary: Summary) -> BrainState | None:
        """Store a summary and return the new state; None when another process was faster."""
        state = self._states.update(key, lambda state: replaced(state, step, summary)).state
        return state if state is not None and any(one.id == summary.id for one in state.summaries) else None

    def _failed(self, error: Exception) -> None:
        self._last = error
        self._backoff.failed()

    def _worked(self) -> None:
        self._last = None
        self._backoff.worked()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
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


PROMPTS: Final[dict[Language, Prompts]] = {
    "en": Prompts(
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
    "zh": Prompts(
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


def prompts_for(text: str, language: LanguageChoice) -> Prompts:
    """Return the prompts in the configured language, or else in that of the text."""
    return PROMPTS[prompt_language(text, language)]


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
