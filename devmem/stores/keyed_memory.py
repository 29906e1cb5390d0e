"""A store whose items may have keys, by rules or by a language model."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import ClassVar, Final

from devmem.config.base import ConfigModel
from devmem.errors import ChatModelError, MissingExtraError
from devmem.model.filters import Filter
from devmem.model.interactions import Language
from devmem.model.items import AGENT_KEY, KEY, MemoryItem, Scope, agent_of, with_key
from devmem.model.results import MemoryWritePayload, WriteOutcome
from devmem.models.chat import TextModel, json_in
from devmem.models.summarizer import SUMMARY_PROMPTS, prompt_language
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.config import KeysConfig, key_by_rules
from devmem.stores.memory import StoreSetup
from devmem.text.devall_frames import strip_frames
from devmem.text.retry import Backoff

_ASK: Final[dict[Language, str]] = {
    "en": (
        "A memory keeps facts that have one value at a time, each under a key such as `user.diet` or `launch.date`. "
        "If the text states or changes the value of such a fact, name its key: lower case, subject and attribute "
        "joined by a dot, at most three parts. Questions, opinions and events have none. "
        'Answer with JSON alone: {"key": "subject.attribute"} or {"key": null}.'
    ),
    "zh": (
        "记忆中保存着同一时间只有一个值的事实,每个事实都有一个键,例如 `user.diet` 或 `launch.date`。"
        "如果文本陈述或更改了这样一个事实的值,请给出它的键:小写英文,主体和属性用点连接,最多三段。"
        '问题、观点和事件没有键。只输出JSON:{"key": "subject.attribute"} 或 {"key": null}。'
    ),
}
_KNOWN: Final[dict[Language, str]] = {
    "en": "Keys in use; take one of them where it fits: {keys}",
    "zh": "已有的键,合适时请使用其中之一:{keys}",
}
_CHOICE: Final[dict[Language, str]] = {
    "en": "Only these keys are possible: {keys}",
    "zh": "只能使用这些键:{keys}",
}
_READ: Final = 4_000
"""Characters of a text that the model reads."""
_LONGEST: Final = 100
"""Characters of a key."""
_LONGEST_PAUSE: Final = 300.0


_SHOWN: Final = 50
"""Maximum number of keys in use that the model is shown."""


class KeyedMemory(CollectionMemory):
    """A store in which a text that states a fact takes the place of the one that stated it before.

    The configuration is a `KeysConfig`. An item under a key has the id of its key within its user and agent: the agent
    of its scope, or else the one that wrote it.
    """

    config_model: ClassVar[type[ConfigModel]] = KeysConfig

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        config = self._key_config = setup.config_as(KeysConfig)
        llm = config.key_llm if config.asks_for_keys else None
        self._key_model = None if llm is None else TextModel(lambda: setup.open_chat(llm), llm.params)
        self._key_names = {name.strip().casefold() for name in config.key_names}
        self._key_backoff = Backoff(longest=_LONGEST_PAUSE, clock=setup.monotonic)

    def key_text(self, payload: MemoryWritePayload) -> str:
        """Return the text of a payload that keys are found in; a store type may choose another."""
        return f"{strip_frames(payload.inputs_text)}\n{payload.output_text()}"

    def update(self, payload: MemoryWritePayload) -> WriteOutcome:
        """Store what a finished node said, under its key if it has one; durable when it returns.

        A language model that fails costs the key alone: the outcome has the failure.
        """
        item = self.compose(payload)
        if isinstance(item, WriteOutcome):
            return item
        try:
            key = self._key_of(self.key_text(payload).strip(), item)
        except (ChatModelError, MissingExtraError) as error:
            (outcome,) = self.store_items([item])
            return replace(outcome, reason=f"stored without a key: {error}", failure=error)
        if key is not None:
            item = with_key(item, key, Scope(user=item.scope.user, agent=agent_of(item)))
        return self.store_items([item])[0]

    def _key_of(self, text: str, item: MemoryItem) -> str | None:
        """Return the key of the fact that a text states, by a rule or by the model; None where it states none.

        Raises:
            ChatModelError: there is no usable answer, or the model is not asked again so soon after a failure.
            MissingExtraError: the model's package is not installed.
        """
        key = key_by_rules(self._key_config.keys, text)
        if key is not None or self._key_model is None or not text:
            return key
        if not self._key_backoff.admits():
            raise ChatModelError(
                f"the language model of keys failed, and is asked again in {self._key_backoff.left:.0f} seconds"
            )
        language = prompt_language(text, "auto")
        asked = [_ASK[language]]
        if self._key_names:
            asked.append(_CHOICE[language].format(keys=json.dumps(self._key_config.key_names, ensure_ascii=False)))
        elif known := self._keys_in_use(item):
            asked.append(_KNOWN[language].format(keys=json.dumps(known, ensure_ascii=False)))
        try:
            answer = self._key_model.ask([*asked, SUMMARY_PROMPTS[language].data], text[:_READ])
        except Exception:
            self._key_backoff.failed()
            raise
        self._key_backoff.worked()
        form = json_in(answer)
        if form is None or "key" not in form:
            raise ChatModelError(f"the language model was asked for a key as JSON, and said {answer[:100]!r}")
        if (found := form["key"]) is None:
            return None
        key = " ".join(found.split()).casefold() if isinstance(found, str) else ""
        if not key or len(key) > _LONGEST or (self._key_names and key not in self._key_names):
            raise ChatModelError(f"the language model named a key that cannot be one: {str(found)[:100]!r}")
        return key

    def _keys_in_use(self, item: MemoryItem) -> list[str]:
        owner = Scope(user=item.scope.user, agent=item.scope.agent)
        unbound = tuple(part for part in ("user", "agent") if getattr(owner, part) is None)
        writer = {AGENT_KEY: agent} if owner.agent is None and (agent := agent_of(item)) else {}
        where = Filter(scope=owner, unbound=unbound, metadata=writer)
        found = self.collection.values(f"metadata.{KEY}", where, limit=_SHOWN)
        return [key for key in found if isinstance(key, str)]
