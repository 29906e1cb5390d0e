"""Keeping keys out of texts: ours, and what mem0 logs."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

_LONGEST: Final = 300
_OF_MEM0: Final = "mem0."


def masked(text: str, secrets: Iterable[str]) -> str:
    """Blot secrets out of a text, and cut it short."""
    text = blotted(text, secrets)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def blotted(text: str, secrets: Iterable[str]) -> str:
    """Blot secrets out of a text."""
    for secret in secrets:
        text = text.replace(secret, "***") if secret else text
    return text


class _Blotting(logging.Filter):
    """Blots secrets out of log records: mem0 logs the answers of services, which may repeat a key."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through, blotted."""
        message = record.getMessage()
        record.msg, record.args = blotted(message, tuple(self.secrets)), ()
        return True


_BLOTTING: Final = _Blotting()


def hide_in_logs(secrets: Iterable[str]) -> None:
    """Keep secrets out of what mem0 logs from now on. A logger's filter does not reach its children: all get it."""
    _BLOTTING.secrets.update(secret for secret in secrets if secret)
    for name in list(logging.root.manager.loggerDict):
        if name.startswith(_OF_MEM0):
            logging.getLogger(name).addFilter(_BLOTTING)
