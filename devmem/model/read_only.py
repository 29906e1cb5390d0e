"""A mapping that cannot be changed."""

from __future__ import annotations

from typing import Any, Final, Never


def _refuse(*_: object, **__: object) -> Never:
    raise TypeError("a message's metadata never changes; `message.with_metadata(...)` returns a message with more")


_REFUSED: Final[Any] = _refuse


class ReadOnlyDict(dict[str, Any]):
    """A dict without the methods that change it, so that it still goes into JSON, pickles and copies."""

    __setitem__ = __delitem__ = __ior__ = _REFUSED
    clear = pop = popitem = setdefault = update = _REFUSED

    def __reduce__(self) -> tuple[type[ReadOnlyDict], tuple[dict[str, Any]]]:
        return (ReadOnlyDict, (dict(self),))
