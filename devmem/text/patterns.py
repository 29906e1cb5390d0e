"""Regular expressions that are compiled when they are first used, so that importing a module costs no compilation."""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    """Stands for a pattern: the first use of a method compiles it and keeps the method."""

    def __init__(self, source: str, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the pattern has
        value = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, value)
        return value


def lazy_pattern(source: str, flags: int | re.RegexFlag = 0) -> re.Pattern[str]:
    """Return the pattern, to be used by its methods alone; an invalid one raises `re.error` at its first use."""
    return cast("re.Pattern[str]", _LazyPattern(source, int(flags)))
