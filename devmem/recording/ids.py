"""Ids that are unique everywhere, made without asking the operating system for each."""

from __future__ import annotations

import itertools
import os
from typing import Final


class _UniqueIds:
    """A random prefix of this process, and a count."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin again with another prefix, as a forked child has to."""
        self._prefix, self._count = os.urandom(12).hex(), itertools.count()

    def next(self) -> str:
        return f"{self._prefix}{next(self._count):08x}"


_IDS: Final = _UniqueIds()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDS.renew)


def unique_id() -> str:
    """Return an id of 32 or more hexadecimal digits; those of one process ascend."""
    return _IDS.next()
