"""One conversation of one user, with the interface of MetaGPT's brain memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from devmem import MemoryItem, WriteOutcome
from devmem.errors import ChatModelError, CollectionError, DevmemError, MessageError
from devmem.messages import Message, Role
from devmem.model.results import ERASED_BEFORE
from devmem.models import SUMMARY_PROMPTS, Language, prompt_language
from devmem.stores import WriteStatus, as_async, skipped
from devmem.text import extract_summary, query_terms
from devmem_stores.brain.compression import Step
from devmem_stores.brain.config import ChatKey
from devmem_stores.brain.items import entry_of, item_of
from devmem_stores.brain.state import BrainState, Summary, refusal, with_entries, with_knowledge

if TYPE_CHECKING:
    from devmem_stores.brain.store import BrainMemory

_FOR_A_TITLE: Final = 500
_TITLE: Final[dict[Language, str]] = {
    "en": "Give the text a title in English of fewer than {words} words. Answer with the title alone.",
    "zh": "请用中文为这段文本拟一个少于{words}字的标题。只输出标题。",
}
_RELATED: Final[dict[Language, str]] = {
    "en": "Decide whether the second text is about what the first text is about. Answer with TRUE or FALSE alone.",
    "zh": "请判断第二段文本与第一段文本谈的是否是同一件事。只输出 TRUE 或 FALSE。",
}
_REWRITE: Final[dict[Language, str]] = {
    "en": (
        "Rewrite the sentence so that it is understood without the context: put what pronouns and omissions stand "
        "for in their place. Add nothing that neither says. Answer with the rewritten sentence alone, in its "
        "language."
    ),
    "zh": (
        "请改写句子,使其脱离上下文也能看懂:把代词和省略换成所指的内容,不要添加两者都没有的信息。"
        "只输出改写后的句子,使用原句的语言。"
    ),
}
_TEXTS: Final[dict[Language, tuple[str, str]]] = {
    "en": ("First text", "Second text"),
    "zh": ("第一段文本", "第二段文本"),
}
_PARTS: Final[dict[Language, tuple[str, str]]] = {"en": ("Context", "Sentence"), "zh": ("上下文", "句子")}
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


class Brain:
    """One conversation of one user; `BrainMemory.brain` gives it.

    Every change is durable when the call returns. A method may wait for Redis, a file or a language model, and has an
    async twin; several threads and processes may use one conversation.
    """

    def __init__(self, key: ChatKey, store: BrainMemory) -> None:
        self.key = key
        self._store = store

    def snapshot(self) -> BrainState:
        """Return the current state, immutable: what is read of it belongs together."""
        return self._store.current(self._store.states.load(self.key))

    @property
    def history(self) -> list[Message]:
        """The messages that are not summarized."""
        return self.snapshot().history

    @property
    def knowledge(self) -> list[Message]:
        """Messages that add knowledge beside the conversation."""
        return self.snapshot().knowledge

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """Summaries of the older messages, in the order of these messages."""
        return self.snapshot().summaries

    @property
    def historical_summary(self) -> str:
        """The texts of the summaries, a line each."""
        return self.snapshot().historical_summary

    @property
    def history_text(self) -> str:
        """The summaries and the history without its last message, a line each."""
        state = self.snapshot()
        parts = [state.historical_summary, *(message.text() for message in state.history[:-1])]
        return "\n".join(part for part in parts if part)

    @property
    def is_history_available(self) -> bool:
        """Whether anything was said."""
        state = self.snapshot()
        return bool(state.entries or state.summaries)

    @property
    def last_history_id(self) -> str:
        """Id of the message added last."""
        return self.snapshot().last_history_id

    @property
    def last_talk(self) -> str | None:
        """Last message of the user, until `pop_last_talk` takes it."""
        return self.snapshot().last_talk

    @property
    def is_dirty(self) -> bool:
        """Whether Redis, where one is configured, lacks a change."""
        return self._store.states.is_waiting(self.key)

    def exists(self, text: str) -> bool:
        """Whether a message of the history has exactly this text."""
        return any(message.content == text for message in self.history)

    def get_knowledge(self) -> str:
        """Return the knowledge, a line for each message."""
        return "\n".join(message.content for message in self.knowledge)

    def to_metagpt_history_format(self) -> str:
        """Return the history as JSON: a list of `{"content": ..., "role": ...}`."""
        return json.dumps([{"content": m.content, "role": m.role.value} for m in self.history], ensure_ascii=False)

    def sources(self, summary: Summary) -> list[MemoryItem]:
        """Return the items that a summary was made of."""
        return self._store.get(list(summary.sources))

    def add_talk(self, message: Message | str) -> WriteOutcome:
        """Add a message of the user, which `pop_last_talk` takes.

        Raises:
            MessageError: it is neither a message nor a text.
        """
        said = self._message(message, Role.USER)
        return self._add(said, lambda state: replace(state, last_talk=said.content))

    def add_answer(self, message: Message | str) -> WriteOutcome:
        """Add an answer; raises as `add_talk`."""
        return self._add(self._message(message, Role.ASSISTANT))

    def add_history(self, message: Message) -> WriteOutcome:
        """Add a message of any role; the outcome says when it is not taken, and why.

        Messages whose ids are numbers come in their order: a smaller one is skipped. Any other id is taken once.
        """
        return self._add(self._message(message, None))

    def add_knowledge(self, message: Message | str) -> WriteOutcome:
        """Add knowledge beside the conversation; raises as `add_talk`."""
        known = self._message(message, Role.SYSTEM if isinstance(message, str) else None)
        if not known.text().strip():
            return skipped("the message has no text")
        item = self._item_of(known, knowledge=True)
        outcome = self._store.store_items([item])[0]
        if outcome.erased_before:
            return outcome
        return self.change(lambda state: with_knowledge(state, entry_of(known, item)), outcome)

    def _add(self, message: Message, then: Callable[[BrainState], BrainState] = lambda state: state) -> WriteOutcome:
        if not message.text().strip():
            return skipped("the message has no text")
        item_id = self.key.item_id(message.id)
        if (refused := refusal(self.snapshot(), message, item_id)) is not None:
            return refused
        item = self._item_of(message)
        stored = self._store.store_items([item])[0]
        if stored.erased_before:
            return stored
        late: list[WriteOutcome] = []

        def added(state: BrainState) -> BrainState:
            # Another thread or process may have added it meanwhile, or one after it.
            verdict = refusal(state, message, item_id)
            late[:] = [verdict] if verdict is not None and verdict.status is WriteStatus.SKIPPED else []
            return state if verdict is not None else then(with_entries(state, [entry_of(message, item)]))

        outcome = self.change(added, stored)
        return late[0] if late else outcome

    def _message(self, message: Message | str, role: Role | None) -> Message:
        if isinstance(message, str) and role is not None:
            return Message(role=role, content=message, created_at=self._store.setup.clock())
        if not isinstance(message, Message):
            raise MessageError(f"a conversation takes a message or a text, not {type(message).__name__}")
        return message if role is None else message.with_role(role)

    def _item_of(self, message: Message, *, knowledge: bool = False) -> MemoryItem:
        length, now = self._store.config.max_content_length, self._store.setup.clock()
        item = item_of(message, self.key, knowledge=knowledge, length=length, now=now)
        return self._store.stamped([item])[0]

    def change(self, change: Callable[[BrainState], BrainState], outcome: WriteOutcome) -> WriteOutcome:
        """Change the state and summarize what is due; the outcome of the item has what failed."""
        try:
            state, failure = self._store.states.update(self.key, lambda state: change(self._store.current(state)))
        except CollectionError as error:
            return replace(outcome, reason=f"the conversation was not changed: {error}", failure=error)
        failures: list[DevmemError] = [] if failure is None else [failure]
        reasons = list(map(str, failures))
        try:
            self._store.compress_state(self.key, state)
        except DevmemError as error:
            failures.append(error)
            reasons.append(f"what was said is kept, but older messages are not summarized: {error}")
        if not failures:
            return outcome
        reason = " ".join(reasons)
        return replace(outcome, reason=reason, failure=failures[0] if len(failures) == 1 else DevmemError(reason))

    def pop_last_talk(self) -> str | None:
        """Return and clear the last message of the user; of several callers one gets it."""
        taken: list[str | None] = []

        def take(state: BrainState) -> BrainState:
            current = self._store.current(state)
            taken[:] = [current.last_talk]
            return replace(current, last_talk=None)

        self._store.states.update(self.key, take)
        return taken[0]

    def set_history_summary(self, summary: str) -> WriteOutcome:
        """Replace all but the latest messages by a summary; setting the same text again changes nothing.

        Sentences that a tombstone keeps out are left out of it.
        """
        if not summary.strip():
            return skipped("the summary is empty")
        summary = self._store.without_erased(summary, self.key)
        if not summary:
            return skipped(ERASED_BEFORE)
        now = self._store.setup.clock()

        def told(state: BrainState) -> BrainState:
            if state.historical_summary == summary:
                return state
            first = {entry.item_id for entry in state.entries[-self._store.config.keep_messages :]}
            older = [entry for entry in state.entries if entry.item_id not in first]
            step = Step(entries=older, summaries=state.summaries)
            given = step.summary(summary, "given", now=now)
            return replace(state, entries=state.entries[len(older) :], summaries=(given,))

        return self.change(told, WriteOutcome(status=WriteStatus.STORED))

    def compress(self) -> int:
        """Summarize all but the latest messages now; return the number of messages.

        Raises:
            ChatModelError: the language model gave no answer; what is not summarized stays in the history.
            CollectionError: a summary cannot be written; likewise.
        """
        state, _ = self._store.states.update(self.key, self._store.current)
        return self._store.compress_state(self.key, state, all_older=True)

    def summarize(self, max_words: int = 200, *, keep_language: bool = False, limit: int = -1) -> str:
        """Summarize everything said so far and change nothing; a text of fewer than `limit` characters stays unchanged.

        Raises:
            ChatModelError: the language model gave no answer.
        """
        text = self.snapshot().whole_text()
        if len(text) < limit:
            return text
        return self._store.text_summarizer.summarize(text, max_words=max_words, keep_language=keep_language).text

    def get_title(self, max_words: int = 5) -> str:
        """Return a title for the conversation, and change nothing; `New` when nothing was said.

        Raises:
            ChatModelError: the language model gave no answer.
        """
        state, model = self.snapshot(), self._store.chat_model
        if not (state.entries or state.summaries):
            return "New"
        if model is None:
            said = [state.historical_summary, *(message.content for message in state.history)]
            return " ".join(extract_summary(next(text for text in said if text.strip()), max_words).split())
        text = self.summarize(_FOR_A_TITLE)
        language = prompt_language(text, self._store.config.language)
        answer = model.ask([_TITLE[language].format(words=max_words), SUMMARY_PROMPTS[language].data], text)
        return " ".join(answer.split()).strip("\"'“”《》「」")

    def is_related(self, text1: str, text2: str) -> bool:
        """Whether the first text is about what the second one is about.

        Raises:
            ChatModelError: the language model gave no answer, or neither TRUE nor FALSE.
        """
        model = self._store.chat_model
        if model is None:
            first, second = set(query_terms(text1)), set(query_terms(text2))
            shared = len(first & second)
            return shared > 0 and shared >= _SHARED * min(len(first), len(second))
        language = prompt_language(text1 + text2, self._store.config.language)
        one, two = _TEXTS[language]
        text = f"## {one}\n{text2}\n\n## {two}\n{text1}"
        answer = model.ask([_RELATED[language], SUMMARY_PROMPTS[language].data], text)
        verdicts = {found.upper() for found in _VERDICT.findall(answer)}
        if len(verdicts) != 1:
            raise ChatModelError(f"the language model was asked for TRUE or FALSE, and answered {answer[:100]!r}")
        return verdicts == {"TRUE"}

    def rewrite(self, sentence: str, context: str) -> Rewriting:
        """Put what a sentence leaves to its context into it; without a model it comes back unchanged, and says so.

        Raises:
            ChatModelError: the language model gave no answer.
        """
        model = self._store.chat_model
        if model is None:
            return Rewriting(text=sentence, rewritten=False, reason="no language model is configured (`llm`)")
        if not context.strip():
            return Rewriting(text=sentence, rewritten=False, reason="there is no context")
        language = prompt_language(sentence, self._store.config.language)
        one, two = _PARTS[language]
        text = f"## {one}\n{context}\n\n## {two}\n{sentence}"
        return Rewriting(text=model.ask([_REWRITE[language], SUMMARY_PROMPTS[language].data], text), rewritten=True)

    def save(self) -> bool:
        """Write to Redis what could not be written before; return whether everything is there now."""
        self._store.states.flush()
        return not self.is_dirty

    asnapshot = as_async(snapshot)
    aadd_talk = as_async(add_talk)
    aadd_answer = as_async(add_answer)
    aadd_history = as_async(add_history)
    aadd_knowledge = as_async(add_knowledge)
    apop_last_talk = as_async(pop_last_talk)
    aset_history_summary = as_async(set_history_summary)
    asummarize = as_async(summarize)
    acompress = as_async(compress)
    aget_title = as_async(get_title)
    ais_related = as_async(is_related)
    arewrite = as_async(rewrite)
    asources = as_async(sources)
    asave = as_async(save)
