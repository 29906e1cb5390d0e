"""Recognizing keys and passwords, so that they are not recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

MASK: Final = "[secret]"
_KEY: Final = re.compile(r"(?i)api[-_]?key|passw(?:or)?d|secret|authorization|access[-_]?token|credential")


@dataclass(frozen=True, slots=True)
class _Shape:
    """Shape of a kind of secrets.

    Texts are searched on every recorded call, and looking for a character or a literal takes a hundredth and a tenth of
    the time that matching a pattern takes.
    """

    character: str
    """A text has it wherever the pattern matches, and prose has it rarely; empty where there is no such character."""
    literals: tuple[str, ...]
    """A text holds one of them wherever the pattern matches."""
    pattern: re.Pattern[str]
    replacement: str = MASK


_SHAPES: Final = (
    _Shape("-", ("sk-",), re.compile(r"\bsk-[A-Za-z0-9_-]{16,}")),  # OpenAI, Anthropic
    _Shape("_", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}")),
    _Shape("_", ("github_pat_",), re.compile(r"\bgithub_pat_[A-Za-z0-9_]{20,}")),
    _Shape("_", ("hf_",), re.compile(r"\bhf_[A-Za-z0-9]{20,}")),  # Hugging Face
    _Shape("A", ("AKIA", "ASIA"), re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),  # AWS
    _Shape("A", ("AIza",), re.compile(r"\bAIza[0-9A-Za-z_-]{30,}")),  # Google
    _Shape("-", ("xox",), re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}")),  # Slack
    # JSON web tokens.
    _Shape("J", ("eyJ",), re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*")),
    _Shape(
        "-",
        ("PRIVATE KEY-----",),
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    ),
    _Shape("", ("earer ", "EARER "), re.compile(r"(?i:\bbearer\s+)[A-Za-z0-9._~+/-]{16,}=*")),
    # User and password of an address.
    _Shape("@", ("://",), re.compile(r"://[^/\s:@]*:[^/\s@]+(?=@)"), f"://{MASK}"),
)
_LONGEST_KEY: Final = 200


class SecretMask:
    """Masks what looks like a key or a password, by the shapes of known services and by patterns of the user's."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        """Compile the patterns.

        Args:
            patterns: further regular expressions; what they match is masked.

        Raises:
            ValueError: one is no regular expression.
        """
        try:
            self._own = [re.compile(pattern) for pattern in patterns]
        except re.error as error:
            raise ValueError(f"{error.pattern!r} is no regular expression: {error}") from error

    def text(self, text: str) -> str:
        """Return the text with its secrets masked."""
        for shape in _SHAPES:
            if shape.character in text and any(literal in text for literal in shape.literals):
                text = shape.pattern.sub(shape.replacement, text)
        for pattern in self._own:
            text = pattern.sub(MASK, text)
        return text

    @staticmethod
    def is_secret(name: str) -> bool:
        """Whether a value of this name is a secret."""
        return _names_secret(name) if len(name) <= _LONGEST_KEY else _KEY.search(name) is not None


_names_secret: Final[Callable[[str], bool]] = lru_cache(maxsize=4096)(lambda name: _KEY.search(name) is not None)
