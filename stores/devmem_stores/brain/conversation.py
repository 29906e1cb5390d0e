"""Changing one conversation of one user, and what a language model derives from it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from devmem import MemoryItem, WriteOutcome
from devmem.errors import MessageError
from devmem.messages import Message, Role
from devmem.model.results import ERASED_BEFORE
from devmem.stores import WriteStatus, as_async, skipped
from devmem_stores.brain.archive import entry_of, item_of
from devmem_stores.brain.compression import Compressed, Rewriting, given_summary
from devmem_stores.brain.config import BrainBusyError, BrainIncompleteError
from devmem_stores.brain.services import ConversationReader
from devmem_stores.brain.state import BrainState, Entry, refusal, with_entries

_LOG: Final = logging.getLogger(__name__)
_NEW: Final = "New"
_FOR_A_TITLE: Final = 500


class Brain(ConversationReader):
    """One conversation of one user, with the interface of MetaGPT's brain memory; `BrainMemory.brain` gives it.

    Every change is durable when the call returns. A method may wait for Redis, a file or a language model, and has an
    async twin; several threads and processes may use one conversation.
    """

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
        return self._add(_checked(message))

    def add_knowledge(self, message: Message | str) -> WriteOutcome:
        """Add knowledge beside the conversation; raises as `add_talk`."""
        known = self._message(message, Role.SYSTEM) if isinstance(message, str) else _checked(message)
        if not known.text().strip():
            return skipped("the message has no text")
        item = self._item_of(known, knowledge=True)
        entry = entry_of(known, item)

        def added(state: BrainState) -> BrainState:
            if any(old.item_id == entry.item_id for old in state.knowledge_entries):
                return state
            return replace(state, knowledge_entries=(*state.knowledge_entries, entry))

        outcome = self._services.archive.add_item(item)
        return outcome if outcome.erased_before else self._changed(added, outcome)

    def pop_last_talk(self) -> str | None:
        """Return and clear the last message of the user; of several callers one gets it."""
        taken: list[str | None] = []

        def take(state: BrainState) -> BrainState:
            current = self._services.current(state)
            taken[:] = [current.last_talk]
            return replace(current, last_talk=None)

        self._services.states.update(self.key, take, fresh=self._fresh())
        return taken[0]

    def set_history_summary(self, summary: str) -> WriteOutcome:
        """Replace all but the latest messages by a summary; setting the same text again changes nothing.

        Sentences that a tombstone keeps out are left out of it.
        """
        if not summary.strip():
            return skipped("the summary is empty")
        summary = self._services.archive.without_erased(summary, self.key)
        if not summary:
            return skipped(ERASED_BEFORE)
        now = self._services.clock()

        def told(state: BrainState) -> BrainState:
            if state.historical_summary == summary:
                return state
            latest = state.entries[-self._services.config.keep_messages :]
            first = {entry.item_id for entry in latest}
            older = [entry for entry in state.entries if entry.item_id not in first]
            return replace(
                state, entries=state.entries[len(older) :], summaries=(given_summary(summary, state, older, now),)
            )

        return self._changed(told, WriteOutcome(status=WriteStatus.STORED))

    def summarize(self, max_words: int = 200, *, keep_language: bool = False, limit: int = -1) -> str:
        """Summarize everything said so far and change nothing; a text of fewer than `limit` characters stays unchanged.

        Raises:
            ChatModelError: the language model gave no answer.
        """
        text = self.snapshot().whole_text()
        if len(text) < limit:
            return text
        return self._services.summarizer.summarize(text, max_words=max_words, keep_language=keep_language).text

    def compress(self) -> int:
        """Summarize all but the latest messages now; return the number of messages.

        Raises:
            ChatModelError: the language model gave no answer; what is not summarized stays in the history.
        """
        self.forget(self._services.current)
        done = self._services.compressor.compress(self.key, self.snapshot(), all_older=True)
        if done.failure is not None:
            raise done.failure
        return done.messages

    def get_title(self, max_words: int = 5) -> str:
        """Return a title for the conversation, and change nothing; `New` when nothing was said.

        Raises:
            ChatModelError: the language model gave no answer.
        """
        state = self.snapshot()
        if not state.is_history_available:
            return _NEW
        if self._services.config.llm_model is None:
            said = [state.historical_summary, *(message.content for message in state.history)]
            return self._services.llm_tasks.title(next(text for text in said if text.strip()), max_words)
        return self._services.llm_tasks.title(self.summarize(_FOR_A_TITLE), max_words)

    def is_related(self, text1: str, text2: str) -> bool:
        """Whether the first text is about what the second one is about.

        Raises:
            ChatModelError: the language model gave no answer, or neither TRUE nor FALSE.
        """
        return self._services.llm_tasks.is_related(text1, text2)

    def rewrite(self, sentence: str, context: str) -> Rewriting:
        """Put what a sentence leaves to its context into it; without a model it comes back unchanged, and says so.

        Raises:
            ChatModelError: the language model gave no answer.
        """
        return self._services.llm_tasks.rewrite(sentence, context)

    def save(self) -> bool:
        """Write to Redis, or to the file, what could not be written before; return whether everything is there now."""
        self._services.states.flush()
        return not self.is_dirty

    def remember(self, entries: Iterable[Entry], outcome: WriteOutcome) -> WriteOutcome:
        """Add messages whose items are stored already, and summarize what is due."""
        added = list(entries)
        return self._changed(lambda state: with_entries(state, added), outcome)

    def forget(self, change: Callable[[BrainState], BrainState]) -> None:
        """Apply a change that removes parts of the state."""
        self._services.states.update(self.key, change, fresh=BrainState)

    def _message(self, message: Message | str, role: Role) -> Message:
        if isinstance(message, str):
            return Message(role=role, content=message, created_at=self._services.clock())
        return _checked(message).with_role(role)

    def _fresh(self, but: str | None = None) -> Callable[[], BrainState]:
        def fresh() -> BrainState:
            state = self._services.rebuilt(self.key, but=but)
            if state.is_history_available:
                _LOG.warning(
                    "memory store %r: no state of a conversation was found; its history starts with the last %d "
                    "messages, older ones are found by searching",
                    self._services.store,
                    len(state.entries),
                )
            return state

        return fresh

    def _item_of(self, message: Message, *, knowledge: bool = False) -> MemoryItem:
        services = self._services
        length, now = services.config.max_content_length, services.clock()
        item = item_of(message, self.key, knowledge=knowledge, length=length, now=now)
        return services.archive.stamped([item])[0]

    def _add(self, message: Message, then: Callable[[BrainState], BrainState] = lambda state: state) -> WriteOutcome:
        if not message.text().strip():
            return skipped("the message has no text")
        item_id = self.key.item_id(message.id)
        if (refused := refusal(self.snapshot(), message, item_id)) is not None:
            return refused
        item = self._item_of(message)
        archived = self._services.archive.add_item(item)
        if archived.erased_before:
            return archived
        late: list[WriteOutcome] = []

        def added(state: BrainState) -> BrainState:
            # Another thread or process may have added it meanwhile, or one after it.
            verdict = refusal(state, message, item_id)
            late[:] = [verdict] if verdict is not None and verdict.status is WriteStatus.SKIPPED else []
            if verdict is None:
                return then(with_entries(state, [entry_of(message, item)]))
            # One that made its state of the items may have told it of this one.
            own = archived.status is WriteStatus.STORED and verdict.status is WriteStatus.DUPLICATE
            return then(state) if own else state

        outcome = self._changed(added, archived)
        return late[0] if late else outcome

    def _changed(self, change: Callable[[BrainState], BrainState], outcome: WriteOutcome) -> WriteOutcome:
        """Change the state and summarize what is due; the outcome has the failures."""
        failures: list[Exception] = []
        try:
            kept = self._services.states.update(
                self.key, lambda state: change(self._services.current(state)), fresh=self._fresh(outcome.item_id)
            )
        except BrainBusyError as error:
            return _with_failures(outcome, [error])
        if kept.failure is not None:
            failures.append(kept.failure)
        if kept.state is not None:
            done: Compressed = self._services.compressor.compress(self.key, kept.state)
            failures += [done.failure] if done.failure is not None else []
        return _with_failures(outcome, failures)

    asnapshot = as_async(ConversationReader.snapshot)
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
    asources = as_async(ConversationReader.sources)
    asave = as_async(save)


def _checked(message: Message) -> Message:
    if not isinstance(message, Message):
        raise MessageError(f"a conversation takes a message or a text, not {type(message).__name__}")
    return message


def _with_failures(outcome: WriteOutcome, failures: list[Exception]) -> WriteOutcome:
    if not failures:
        return outcome
    failure = failures[0] if len(failures) == 1 else BrainIncompleteError(failures)
    return replace(outcome, reason=str(failure), failure=failure)
