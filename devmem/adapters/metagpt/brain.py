"""MetaGPT's `BrainMemory` over a `brain` store: nothing that was said is lost when a model summarizes it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, Self

from pydantic import JsonValue

from devmem import acting_as
from devmem.adapters.metagpt.messages import to_devmem, to_metagpt
from devmem.errors import ChatModelError
from devmem.messages import Message, Role
from devmem.models import ChatReply, ChatRequest, Summarizer, split_texts
from devmem.plugins import registry
from devmem.stores import StoreSetup

_HOST: Final = "metagpt"
_NEVER: Final = 1_000_000_000
"""More messages, and more tokens, than a conversation has: MetaGPT summarizes when it is told to."""
_LOCAL_MODEL: Final = "MetaGPTLLM"
"""Class of MetaGPT's model with which it does without one."""
_SHARED: Final = frozenset(
    "exists get_knowledge historical_summary history_text is_dirty is_history_available last_history_id".split()
)
"""Attributes of devmem's conversation that are MetaGPT's too."""
_STORE: Final[Any] = registry.get("brain").factory
_ASKED: Final[ContextVar[tuple[Any, asyncio.AbstractEventLoop] | None]] = ContextVar("metagpt_llm", default=None)
"""The model that the current call was given, and its event loop."""


class _CallersModel:
    """The model that a call is given; it is asked on its event loop while the call waits in a thread."""

    def complete(self, request: ChatRequest) -> ChatReply:
        """Answer a request.

        Raises:
            ChatModelError: the call was given no model, or the model failed.
        """
        asked = _ASKED.get()
        if asked is None:
            raise ChatModelError("a model is asked by `summarize`, `get_title`, `is_related` and `rewrite` alone")
        llm, loop = asked
        system = [message.content for message in request.messages if message.role is Role.SYSTEM]
        said = "\n".join(message.content for message in request.messages if message.role is not Role.SYSTEM)
        answer = asyncio.run_coroutine_threadsafe(llm.aask(said, system_msgs=system, stream=False), loop)
        try:
            return ChatReply(text=str(answer.result()))
        except Exception as error:  # whatever a model of MetaGPT's raises
            raise ChatModelError(f"MetaGPT's model gave no answer: {error}") from error


@contextmanager
def _asking(llm: Any) -> Iterator[None]:
    token = _ASKED.set((llm, asyncio.get_running_loop()))
    try:
        yield
    finally:
        _ASKED.reset(token)


class DevmemBrainMemory:
    """One conversation of one user, with the methods of MetaGPT's `BrainMemory`.

    ```python
    assistant.memory = DevmemBrainMemory("talks.db", user="ann", chat="monday")
    ```

    Every message stays findable whatever was summarized, and is on the disk when `add_talk` or `add_answer` returns.
    Neither a configuration nor a password is part of what is stored. Where a method takes `llm`, it is MetaGPT's model;
    None and MetaGPT's local model do without one.
    """

    cacheable: bool = True
    """Whether the conversation is kept."""
    extract_info = staticmethod(_STORE.extract_info)
    to_int = staticmethod(_STORE.to_int)
    split_texts = staticmethod(split_texts)

    def __init__(
        self,
        place: str | Path | None = None,
        *,
        user: str = "",
        chat: str = "",
        options: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Open the store and the conversation.

        Args:
            place: path of the file, or `postgresql://...`; None keeps the conversation in this process.
            user: the user; may be empty where there is only one.
            chat: the conversation of the user.
            options: further keys of the store's configuration, such as `redis` or `keep_messages`.

        Raises:
            ConfigError: the options do not fit the store.
            CollectionError: the file cannot be used.
        """
        given: dict[str, JsonValue] = {
            "memory_path": None if place is None else str(place),
            "llm": {"model": _HOST},
            "max_messages": _NEVER,
            "max_tokens": _NEVER,
        }
        config = registry.config_model("brain").model_validate({**given, **dict(options or {})})
        setup = StoreSetup(name=_HOST, store_type="brain", config=config, open_chat=lambda _config: _CallersModel())
        store = _STORE(setup)
        store.load()
        self._use(store, user, chat)

    def _use(self, store: Any, user: str, chat: str) -> None:
        self._store, self._brain = store, store.brain(user=user, chat=chat)
        self._given_talk: str | None = None

    def close(self) -> None:
        """Close the store, for all conversations that were taken from it."""
        self._store.close()

    def add_talk(self, msg: Any) -> None:
        """Add a message of the user, which `pop_last_talk` takes; the message itself is left unchanged.

        Raises:
            MessageError: it is not a message of MetaGPT's.
            CollectionError: it can be kept nowhere.
        """
        self._add(self._brain.add_talk, _in_role(msg, "user"))

    def add_answer(self, msg: Any) -> None:
        """Add an answer; raises as `add_talk`."""
        self._add(self._brain.add_answer, _in_role(msg, "assistant"))

    def add_history(self, msg: Any) -> None:
        """Add a message in its own role; of those whose ids are numbers, a smaller one is skipped."""
        self._add(self._brain.add_history, to_devmem(msg))

    def add_knowledge(self, msg: Any) -> None:
        """Add knowledge beside the conversation; raises as `add_talk`."""
        self._add(self._brain.add_knowledge, to_devmem(msg))

    def _add(self, add: Any, message: Message) -> None:
        with acting_as(_HOST, by_default=True):
            add(message)

    @property
    def history(self) -> list[Any]:
        """MetaGPT's messages that are not summarized, oldest first."""
        return [to_metagpt(message) for message in self._brain.history]

    @property
    def knowledge(self) -> list[Any]:
        """MetaGPT's messages that add knowledge beside the conversation."""
        return [to_metagpt(message) for message in self._brain.knowledge]

    def __getattr__(self, name: str) -> Any:
        """Return what devmem's conversation has as MetaGPT's, from `historical_summary` to `exists`."""
        if name not in _SHARED:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._brain, name)

    @property
    def last_talk(self) -> str | None:
        """Last message of the user, until `pop_last_talk` takes it; one that is assigned comes first."""
        found: str | None = self._brain.last_talk
        return self._given_talk or found

    @last_talk.setter
    def last_talk(self, text: str | None) -> None:
        self._given_talk = text

    def pop_last_talk(self) -> str | None:
        """Return and clear the last message of the user; of several callers one gets it."""
        kept: str | None = self._brain.pop_last_talk()
        given, self._given_talk = self._given_talk, None
        return given or kept

    async def loads(self, redis_key: str) -> Self:
        """Return the conversation that a key names, in the same store; see `to_redis_key`."""
        _, _, named = redis_key.partition(":")
        user, _, chat = named.partition(":")
        made = type(self).__new__(type(self))
        made._use(self._store, user, chat)  # noqa: SLF001 - an object of this class
        return made

    async def dumps(self, redis_key: str = "", timeout_sec: int = 0) -> bool:
        """Write what could not be written before; return whether everything is where it should be.

        A change is written when it is made: key and lifetime are those of the conversation and of the store.
        """
        done: bool = await self._brain.asave()
        return done

    @staticmethod
    def to_redis_key(prefix: str, user_id: str, chat_id: str) -> str:
        """Return the name of a conversation that `loads` takes."""
        return f"{prefix}:{user_id}:{chat_id}"

    async def set_history_summary(self, history_summary: str, redis_key: str = "") -> None:
        """Replace all but the latest messages by a summary; the messages stay findable."""
        with acting_as(_HOST, by_default=True):
            await self._brain.aset_history_summary(history_summary)

    async def summarize(
        self, llm: Any = None, max_words: int = 200, keep_language: bool = False, limit: int = -1, **_: object
    ) -> str:
        """Return a summary of everything said so far, which replaces all but the latest messages in the history.

        A text of fewer than `limit` characters, or of no more than `max_words` words, is returned whole, and nothing
        is replaced.

        Raises:
            ChatModelError: the model gave no answer; nothing was replaced.
        """
        state = await self._brain.asnapshot()
        whole = str(state.whole_text())
        if len(whole) < limit or not whole.strip():
            return whole
        if _does_without(llm):
            summary = Summarizer(None).summarize(whole, max_words=max_words).text
        else:
            with _asking(llm):
                summary = await self._brain.asummarize(max_words, keep_language=keep_language)
        if summary.strip() != whole.strip():
            await self.set_history_summary(summary)
        return summary

    async def get_title(self, llm: Any = None, max_words: int = 5, **_: object) -> str:
        """Return a title, and change nothing; without a model the first message, or `New`.

        Raises:
            ChatModelError: the model gave no answer.
        """
        if _does_without(llm):
            history = await asyncio.to_thread(lambda: self.history)
            return str(history[0].content) if history else "New"
        with _asking(llm):
            return str(await self._brain.aget_title(max_words))

    async def is_related(self, text1: str, text2: str, llm: Any = None) -> bool:
        """Whether the first text is about what the second one is about; False without a model.

        Raises:
            ChatModelError: the model gave no answer, or neither TRUE nor FALSE.
        """
        if _does_without(llm):
            return False
        with _asking(llm):
            return bool(await self._brain.ais_related(text1, text2))

    async def rewrite(self, sentence: str, context: str, llm: Any = None) -> str:
        """Put what a sentence leaves to its context into it; unchanged without a model.

        Raises:
            ChatModelError: the model gave no answer.
        """
        if _does_without(llm):
            return sentence
        with _asking(llm):
            return str(await self._brain.arewrite(sentence, context))

    @staticmethod
    def to_metagpt_history_format(history: list[Any]) -> str:
        """Return MetaGPT's messages as JSON: a list of `{"content": ..., "role": ...}`."""
        return json.dumps([{"content": one.content, "role": one.role} for one in history], ensure_ascii=False)

    def model_dump(self) -> dict[str, Any]:
        """Return the fields of MetaGPT's form, without any configuration."""
        return {
            "history": [message.model_dump() for message in self.history],
            "knowledge": [message.model_dump() for message in self.knowledge],
            "historical_summary": self.historical_summary,
            "last_history_id": self.last_history_id,
            "is_dirty": self.is_dirty,
            "last_talk": self.last_talk,
            "cacheable": self.cacheable,
        }

    def model_dump_json(self) -> str:
        """Return MetaGPT's form as JSON; a role that keeps it in a project writes this."""
        return json.dumps(self.model_dump(), ensure_ascii=False)


def _in_role(message: Any, role: str) -> Message:
    to_devmem(message)  # refuses what is not a message
    return to_devmem(message.model_copy(update={"role": role}))


def _does_without(llm: object) -> bool:
    return llm is None or type(llm).__name__ == _LOCAL_MODEL
