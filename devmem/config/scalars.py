"""One YAML scalar to a Python value, by the rules of YAML 1.1 that `yaml.safe_load` follows."""

from __future__ import annotations

from typing import Final

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from devmem.config.document import Plain

_PREFIX: Final = "tag:yaml.org,2002:"
_MERGE_TAG: Final = f"{_PREFIX}merge"
_KINDS: Final = {
    f"{_PREFIX}null": "null",
    f"{_PREFIX}bool": "flag",
    f"{_PREFIX}int": "number",
    f"{_PREFIX}float": "number",
    f"{_PREFIX}timestamp": "date",
}
# Long numbers take quadratic time to read, in base 60 even from few characters; no real one comes near this.
_NUMBER_CHARACTERS: Final = 300

_RESOLVER: Final = Resolver()
_CONSTRUCTOR: Final = SafeConstructor()


class ScalarError(ValueError):
    """A scalar that is not what it claims to be; says so without repeating the value, which may be a secret."""


def is_merge_key(event: yaml.ScalarEvent) -> bool:
    """Whether a key is the `<<` that takes over another mapping's entries."""
    return event.value == "<<" and (event.tag == _MERGE_TAG or (not event.tag and event.implicit[0]))


def scalar_value(event: yaml.ScalarEvent) -> Plain:
    """Return the scalar's value: text, number, flag, date or None.

    Raises:
        ScalarError: the value does not fit its tag, is far too long a number, or holds characters that no text may.
    """
    text = _checked_text(event.value)
    tag = event.tag if event.tag and event.tag != "!" else _implicit_tag(text, event)
    if tag not in _KINDS:
        if event.tag and event.tag not in ("!", f"{_PREFIX}str"):
            raise ScalarError("this tag is not supported: only YAML's own tags for text, numbers, flags and dates are")
        return text
    if _KINDS[tag] == "number" and len(text) > _NUMBER_CHARACTERS:
        raise ScalarError(f"a number of {len(text)} characters is too long; quote it if it is meant as text")
    node = ScalarNode(tag, text)
    try:
        return SafeConstructor.yaml_constructors[tag](_CONSTRUCTOR, node)
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError, yaml.YAMLError):
        # The original error repeats the value, so it is not chained.
        raise ScalarError(f"this is not a valid {_KINDS[tag]}; quote it if it is meant as text") from None


def _implicit_tag(text: str, event: yaml.ScalarEvent) -> str:
    return str(_RESOLVER.resolve(ScalarNode, text, event.implicit))  # type: ignore[no-untyped-call]  # untyped stub


def _checked_text(text: str) -> str:
    if "\0" in text:
        raise ScalarError("a text cannot hold the character NUL")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ScalarError("a text cannot hold half of a surrogate pair")
    return text
