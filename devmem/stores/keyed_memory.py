"""A store whose items may have keys, by rules or by a language model."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from devmem.collections import Filter
from devmem.config import ConfigModel
from devmem.errors import ChatModelError, MissingExtraError
from devmem.model.items import Scope
from devmem.model.keys import KEY, with_key
from devmem.model.results import MemoryWritePayload, WriteOutcome
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.key_model import KeyModel
from devmem.stores.keys_config import KeysConfig, key_by_rules
from devmem.stores.setup import StoreSetup
from devmem.text.frames import strip_frames

_SHOWN: Final = 50
"""Maximum number of keys in use that the model is shown."""


class KeyedMemory(CollectionMemory):
    """A store in which a text that states a fact takes the place of the one that stated it before.

    The configuration is a `KeysConfig`. An item under a key has the id of its key within its user and agent.
    """

    config_model: ClassVar[type[ConfigModel]] = KeysConfig

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        config = self._key_config = setup.config_as(KeysConfig)
        self._key_model = (
            KeyModel(config.key_llm, setup.open_chat, config.key_names, setup.monotonic)
            if config.key_llm is not None and config.asks_for_keys
            else None
        )

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
        owner = Scope(user=item.scope.user, agent=item.scope.agent)
        try:
            key = self._key_of(self.key_text(payload).strip(), owner)
        except (ChatModelError, MissingExtraError) as error:
            outcome = self.store_items([item])[0]
            return replace(outcome, reason=f"stored without a key: {error}", failure=error)
        return self.store_items([item if key is None else with_key(item, key, owner)])[0]

    def _key_of(self, text: str, owner: Scope) -> str | None:
        key = key_by_rules(self._key_config.keys, text)
        if key is not None or self._key_model is None or not text:
            return key
        return self._key_model.key_of(text, self._keys_in_use(owner))

    def _keys_in_use(self, owner: Scope) -> list[str]:
        if self._key_config.key_names:
            return []
        unbound = tuple(part for part in ("user", "agent") if getattr(owner, part) is None)
        found = self.collection.values(f"metadata.{KEY}", Filter(scope=owner, unbound=unbound), limit=_SHOWN)
        return [key for key in found if isinstance(key, str)]
