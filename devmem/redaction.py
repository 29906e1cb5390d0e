"""Keeping keys, the passwords of URLs, and the texts of a memory, out of messages."""

from __future__ import annotations

import json
import logging
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Final
from urllib.parse import quote, quote_plus, unquote, urlsplit

_LOG: Final = logging.getLogger(__name__)
_LEAST_SECRET: Final = 4
"""Characters of the shortest secret that is masked."""
_LEAST_ENCODED: Final = 6
"""Characters of the shortest one that is masked in base64."""
_WORD: Final = 8
"""Characters from which a secret is masked within a word, and letters from which it is more than any word."""
_AROUND: Final = re.compile(r"\A[\s\ufeff\u200b-\u200d\u2060]+|[\s\ufeff\u200b-\u200d\u2060]+\Z")
"""White space and invisible characters around a key, as files and web pages leave them."""
_hidden: set[str] = set()
_hiding: Final = Lock()
_masks: re.Pattern[str] | None = None


def hide(secret: str) -> None:
    """Mask a key or a password, or that of a URL, in every message from now on.

    A few letters are not hidden: a service without keys takes any word as one, and messages need their words.
    """
    global _masks
    password = urlsplit(secret).password or "" if "://" in secret else secret
    found = {_AROUND.sub("", each) for each in (password, unquote(password))}
    with _hiding:
        new = {one for one in found if _is_secret(one)} - _hidden
        if new:
            _hidden.update(new)
            patterns = {pattern for one in _hidden for pattern in _patterns_of(one)}
            _masks = re.compile("|".join(sorted(patterns, key=len, reverse=True)), re.IGNORECASE)


def _is_secret(text: str) -> bool:
    return len(text) >= (_WORD if text.isalpha() else _LEAST_SECRET)


def _patterns_of(secret: str) -> Iterator[str]:
    """Yield patterns of the forms in which libraries repeat a secret: unchanged, escaped, %-encoded, and in base64."""
    raw = secret.encode("utf-8", "surrogatepass")
    forms = {secret, quote(raw, safe=""), quote(raw), quote_plus(raw), repr(secret)[1:-1], repr(raw)[2:-1]}
    forms |= {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    for form in forms:
        is_part = len(form) >= _WORD and not form.isalpha()
        yield re.escape(form) if is_part else rf"(?<!\w){re.escape(form)}(?!\w)"
    for before in range(3 if len(raw) >= _LEAST_ENCODED else 0):
        # As in `Authorization: Basic`, behind a user: only the characters that are of the secret's bits alone.
        encoded = b64encode(b"\0" * before + raw).decode()
        yield re.escape(encoded[-(-before * 4 // 3) : (before + len(raw)) * 4 // 3])


def usable_key(given: str, name: str) -> str:
    """Return a service's key without white space and invisible characters around it, hidden from all messages.

    Args:
        given: the key as it was configured.
        name: name of the variable, or of the place in the configuration, that holds it.

    Raises:
        ValueError: no HTTP header can carry it.
    """
    key = _AROUND.sub("", given)
    hide(given)
    if not (key.isascii() and key.isprintable()):
        raise ValueError(
            f"the key in {name} has a control character or one beyond ASCII, which no HTTP header can carry: copy the "
            "key again"
        )
    if key != given:
        _LOG.warning("the key in %s has white space or invisible characters around it, which are left out", name)
    return key


_USERINFO: Final = re.compile(
    # What PostgreSQL's driver would read as user and password, also where one of them has a character that belongs
    # %-encoded: up to the last @ before the parameters.
    # No token is longer than 4,000 characters, and a message may quote any text.
    r"(?P<database>postgres(?:ql)?(?:\+\w{1,20})?:/{0,2})(?:[^?\s]|\?(?!\w{1,60}=)){0,4000}@"
    # Elsewhere a slash ends the host, unless what looks like a port is none.
    r"|(?P<any>://)(?:[^/?#\s]{0,4000}|[^/?#\s:@]{0,400}:(?!\d{0,9}(?:[/?#\s]|$))[^\s?]{0,4000})@",
    re.IGNORECASE,
)
_PARAMETER: Final = re.compile(
    r"((?:^|[?&\s]|%3F|%26)\w{0,60}(?:pas{1,9}wo?r?d|pwd|secret)\w{0,60}=)(?:(?!%26)[^&\s])+", re.IGNORECASE
)
_IN_LOCATION: Final = re.compile(r"\A([\w.+-]+:/{1,2})(?:[^?]|\?(?!\w+=))*@")


def without_credentials(text: str) -> str:
    """Return the text with the user and password of every URL in it masked, and with everything that is hidden."""
    text = _PARAMETER.sub(r"\1***", _USERINFO.sub(_masked, text) if "@" in text else text)
    return _masks.sub("***", text) if _masks else text


def location_without_credentials(location: str) -> str:
    """Return a path or a URL with user and password masked, whatever characters they have."""
    return without_credentials(_IN_LOCATION.sub(r"\1***@", location))


def _masked(found: re.Match[str]) -> str:
    return f"{found['database'] or found['any']}***@"


_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})")
_WINDOW: Final = 16
"""Letters and digits that a service's words and a text have in common where the words repeat the text."""
_LEAST: Final = 6
"""Letters and digits of the shortest text that is looked for."""


def without_repeated(said: str, texts: Iterable[str]) -> str:
    """Return a service's words, or a note in their place where they repeat a part of what it was sent.

    Some services answer a request that they refuse with the request itself; their words go to logs, which hold no
    contents of a memory.

    Args:
        said: the service's words.
        texts: what it was sent.
    """
    unescaped = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), said).replace("\\n", " ")
    # JSON escapes a character beyond U+FFFF as two, which are one again.
    plain = _letters(unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    if any(_repeats(plain, _letters(text)) for text in texts):
        return "(the service's words are left out, as they repeat what it was sent)"
    return said


def _repeats(plain: str, text: str) -> bool:
    if len(text) <= _WINDOW:
        return len(text) >= _LEAST and text in plain
    # Any part of twice the window's length holds one of these windows.
    return any(text[at : at + _WINDOW] in plain for at in range(0, len(text) - _WINDOW + 1, _WINDOW))


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())
