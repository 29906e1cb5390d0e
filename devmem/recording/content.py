"""Texts and JSON forms of whatever calls take and return: faithful, bounded in size and time, without secrets."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from itertools import islice
from numbers import Integral, Real
from pathlib import PurePath
from typing import Final
from uuid import UUID

from pydantic import BaseModel, JsonValue, Secret, SecretBytes, SecretStr

MASK: Final = "[secret]"
_KEY: Final = re.compile(r"(?i)api[-_]?key|passw(?:or)?d|secret|authorization|access[-_]?token|credential")


@dataclass(frozen=True, slots=True)
class _Shape:
    """Shape of a kind of secrets."""

    literals: tuple[str, ...]
    """A text holds one of them wherever the pattern matches; looking for them takes a tenth of the time of matching."""
    pattern: re.Pattern[str]
    replacement: str = MASK


_SHAPES: Final = (
    _Shape(("sk-",), re.compile(r"\bsk-[A-Za-z0-9_-]{16,}")),  # OpenAI, Anthropic
    _Shape(("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}")),
    _Shape(("github_pat_",), re.compile(r"\bgithub_pat_[A-Za-z0-9_]{20,}")),
    _Shape(("hf_",), re.compile(r"\bhf_[A-Za-z0-9]{20,}")),  # Hugging Face
    _Shape(("AKIA", "ASIA"), re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),  # AWS
    _Shape(("AIza",), re.compile(r"\bAIza[0-9A-Za-z_-]{30,}")),  # Google
    _Shape(("xox",), re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}")),  # Slack
    # JSON web tokens.
    _Shape(("eyJ",), re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*")),
    _Shape(
        ("PRIVATE KEY-----",),
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    ),
    _Shape(("earer ", "EARER "), re.compile(r"(?i:\bbearer\s+)[A-Za-z0-9._~+/-]{16,}=*")),
    # User and password of an address.
    _Shape(("://",), re.compile(r"://[^/\s:@]*:[^/\s@]+(?=@)"), f"://{MASK}"),
)
_LONGEST_KEY: Final = 200


class SecretMask:
    """Masks what looks like a key or a password, by the shapes of known services and by patterns of the user's."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        """Compile the patterns.

        Args:
            patterns: further regular expressions; what they match is masked.

        Raises:
            ValueError: one is not a regular expression.
        """
        try:
            self._own = [re.compile(pattern) for pattern in patterns]
        except re.error as error:
            raise ValueError(f"{error.pattern!r} is not a regular expression: {error}") from error

    def text(self, text: str) -> str:
        """Return the text with its secrets masked."""
        for shape in _SHAPES:
            if any(literal in text for literal in shape.literals):
                text = shape.pattern.sub(shape.replacement, text)
        for pattern in self._own:
            text = pattern.sub(MASK, text)
        return text

    @staticmethod
    def is_secret(name: str) -> bool:
        """Whether a value of this name is a secret."""
        return _names_secret(name) if len(name) <= _LONGEST_KEY else _KEY.search(name) is not None


_names_secret: Final[Callable[[str], bool]] = lru_cache(maxsize=4096)(lambda name: _KEY.search(name) is not None)


_DEPTH: Final = 12
"""Levels of nesting that are kept."""
_SPARE: Final = 512
"""Characters behind the cut that are searched for secrets too, so that none is cut to an unrecognizable half."""
_LONGEST_REPR: Final = 2000
_LONGEST_NAME: Final = 200
_LARGEST_INTEGER: Final = 1 << 63
_ENTRY: Final = 4
"""Characters that a name or a value takes beside its own: quotes, and a colon or a comma with a space."""
_MARK: Final = 40
"""Characters that are left for the mark of what was cut."""
_encode: Final = json.JSONEncoder(ensure_ascii=False).encode


class Renderer:
    """Renders contents and arguments of calls; what strangers' objects raise becomes part of the text."""

    def __init__(self, max_length: int, mask: SecretMask) -> None:
        """Set the limits.

        Args:
            max_length: maximum number of characters of a content, and of all arguments of a call together, not
                counting the escapes of JSON; more are cut with a mark that says how many there were.
            mask: masks secrets.
        """
        self._max_length, self._mask = max_length, mask

    def content(self, value: object) -> str:
        """Return a value as text: a string unchanged, an exception as its kind and words, anything else as JSON."""
        try:
            return self._content(value)
        except Exception as error:  # noqa: BLE001 - a stranger's object may raise anything when it is read
            return _unreadable(value, error)

    def _content(self, value: object) -> str:
        if isinstance(value, BaseException):
            value = f"{type(value).__name__}: {_words(value)}"
        if isinstance(value, str):
            return _masked(value, self._max_length, self._mask)
        if type(value) is int and abs(value) < _LARGEST_INTEGER:
            return str(value)
        return self.as_text(_JsonForm(self._max_length - _MARK, self._mask).of(value, _DEPTH))

    def arguments(self, arguments: Mapping[str, object]) -> dict[str, JsonValue]:
        """Return the arguments of a call in JSON form."""
        return _JsonForm(self._max_length, self._mask).of_entries(arguments.items(), _DEPTH)

    def as_text(self, form: JsonValue) -> str:
        """Return a JSON form as text."""
        return shortened(_encode(form), self._max_length)


def shortened(text: str, max_length: int, length: int | None = None) -> str:
    """Return the start of a text, with a mark where it was cut.

    Args:
        text: the text, or as much of it as may be shown.
        max_length: maximum number of characters.
        length: number of characters of the whole text; None is that of `text`.
    """
    length = len(text) if length is None else length
    if len(text) <= max_length and len(text) >= length:
        return text
    mark = f"… [{length} characters]"
    return text[: max(max_length - len(mark), 0)] + mark


def _masked(text: str, max_length: int, mask: SecretMask) -> str:
    if len(text) <= max_length:
        return shortened(mask.text(str.__str__(text)), max_length)
    return shortened(mask.text(text[: max_length + _SPARE]), max_length, len(text))


class _JsonForm:
    """Makes one JSON form; what does not fit into its room is cut, so that no object takes long, however large."""

    __slots__ = ("_mask", "_room")

    def __init__(self, room: int, mask: SecretMask) -> None:
        self._room, self._mask = room, mask

    def of(self, value: object, depth: int) -> JsonValue:
        try:
            return self._of(value, depth)
        except Exception as error:  # noqa: BLE001 - a stranger's object may raise anything when it is read
            return _unreadable(value, error)

    def _of(self, value: object, depth: int) -> JsonValue:
        if isinstance(value, str):
            return self._text(value)
        self._room -= _ENTRY
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | Integral):
            number = int(value)
            self._room -= number.bit_length() // 3
            return number if abs(number) < _LARGEST_INTEGER else f"[integer of {number.bit_length()} bits]"
        if isinstance(value, float | Real):
            real = float(value)
            self._room -= _ENTRY
            return real if math.isfinite(real) else str(real)
        return self._of_compound(value, depth - 1) if depth else self._text(repr(value)[:200])

    def of_entries(self, entries: Collection[tuple[object, object]], depth: int) -> dict[str, JsonValue]:
        kept: dict[str, JsonValue] = {}
        for key, value in entries:
            if self._room <= 0:
                kept["…"] = f"[{len(entries) - len(kept)} more]"
                break
            name = self._mask.text(str(key)[:_LONGEST_NAME])
            self._room -= len(name) + _ENTRY
            kept[name] = MASK if value is not None and self._mask.is_secret(name) else self.of(value, depth)
        return kept

    def _of_compound(self, value: object, depth: int) -> JsonValue:
        if isinstance(value, Mapping):
            return self.of_entries(value.items(), depth)
        if isinstance(value, BaseModel):
            return self.of_entries(_shown_fields(value), depth)
        if is_dataclass(value) and not isinstance(value, type):
            return self.of_entries([(one.name, getattr(value, one.name)) for one in fields(value)], depth)
        if isinstance(value, Enum):
            return self.of(value.value, depth)
        if isinstance(value, bytes | bytearray | memoryview):
            return f"[{len(value)} bytes]"
        if isinstance(value, Sequence | Set):
            return self._of_list(value, depth)
        return self._text(_single_text(value))

    def _of_list(self, values: Sequence[object] | Set[object], depth: int) -> list[JsonValue]:
        kept: list[JsonValue] = []
        for value in islice(values, len(values)):
            if self._room <= 0:
                kept.append(f"… [{len(values) - len(kept)} more]")
                break
            kept.append(self.of(value, depth))
        return kept

    def _text(self, text: str) -> str:
        form = _masked(text, max(self._room, 0), self._mask)
        self._room -= len(form) + _ENTRY
        return form


def _single_text(value: object) -> str:
    """Return the text of an object that has no parts."""
    if isinstance(value, SecretStr | SecretBytes | Secret):
        return MASK
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, PurePath | UUID | Decimal | timedelta):
        return str(value)
    return shortened(repr(value), _LONGEST_REPR)


def _shown_fields(model: BaseModel) -> list[tuple[str, object]]:
    """Return the fields of a model but for those that it leaves out of its JSON."""
    declared = type(model).model_fields
    return [(name, value) for name, value in model if name not in declared or not declared[name].exclude]


def _unreadable(value: object, error: Exception) -> str:
    return f"<{type(value).__name__} that raises {type(error).__name__} when it is read>"


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as raised:  # noqa: BLE001 - a stranger's `__str__` may raise anything
        return f"<words that raise {type(raised).__name__}>"
