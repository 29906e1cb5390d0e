"""Texts as PostgreSQL can hold them: it has neither NUL nor lone surrogates."""

from __future__ import annotations

import re
from typing import Final

# Each is replaced by characters that sort where it does, and that its prefix begins with.
_FORMS: Final = {"\x00": "\x01\x01", "\x01": "\x01\x02", "\ud7ff": "\ud7ff\x02"} | {
    chr(0xD800 + at): f"\ud7ff\x03{chr(0xE000 + at)}" for at in range(0x800)
}
_TEXTS: Final = {form: text for text, form in _FORMS.items()}
_SPECIAL: Final = re.compile("[\x00\x01\ud7ff-\udfff]")
_ESCAPED: Final = re.compile("\x01[\x01\x02]|\ud7ff(?:\x02|\x03[\ue000-\ue7ff])")


def stored_text(text: str | None) -> str | None:
    """Return a text as a column holds it; different texts differ, in the same order by code points."""
    return None if text is None else _SPECIAL.sub(lambda found: _FORMS[found[0]], text)


def read_text(text: str | None) -> str | None:
    """Return the text of which `stored_text` made this."""
    return None if text is None else _ESCAPED.sub(lambda found: _TEXTS[found[0]], text)
