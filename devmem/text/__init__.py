"""Text processing without a model: terms, sentences, passages, times, token estimates; and files and calls."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.text.analysis import estimate_tokens, mostly_unspaced, query_terms, shorten, split_sentences
    from devmem.text.devall_frames import last_sender, strip_frames
    from devmem.text.display import indented, one_line
    from devmem.text.files import UnreadableError, decode_text, describe_guess
    from devmem.text.retry import Backoff
    from devmem.text.summarizing import count_words, extract_summary
else:
    __getattr__, __dir__ = _lazy_names(__name__)

__all__ = [
    "Backoff",
    "UnreadableError",
    "count_words",
    "decode_text",
    "describe_guess",
    "estimate_tokens",
    "extract_summary",
    "indented",
    "last_sender",
    "mostly_unspaced",
    "one_line",
    "query_terms",
    "shorten",
    "split_sentences",
    "strip_frames",
]
