"""Text processing without a model: terms, sentences, passages, times, token estimates; and files and calls."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.text.analysis import estimate_tokens as estimate_tokens
    from devmem.text.analysis import mostly_unspaced as mostly_unspaced
    from devmem.text.analysis import query_terms as query_terms
    from devmem.text.analysis import shorten as shorten
    from devmem.text.analysis import split_sentences as split_sentences
    from devmem.text.devall_frames import last_sender as last_sender
    from devmem.text.devall_frames import strip_frames as strip_frames
    from devmem.text.display import indented as indented
    from devmem.text.display import one_line as one_line
    from devmem.text.display import well_formed as well_formed
    from devmem.text.display import well_formed_json as well_formed_json
    from devmem.text.files import decode_text as decode_text
    from devmem.text.files import describe_guess as describe_guess
    from devmem.text.retry import Backoff as Backoff
    from devmem.text.summarizing import count_words as count_words
    from devmem.text.summarizing import extract_summary as extract_summary
else:
    _ORIGINS = {
        "devmem.text.analysis": "estimate_tokens mostly_unspaced query_terms shorten split_sentences",
        "devmem.text.devall_frames": "last_sender strip_frames",
        "devmem.text.display": "indented one_line well_formed well_formed_json",
        "devmem.text.files": "decode_text describe_guess",
        "devmem.text.retry": "Backoff",
        "devmem.text.summarizing": "count_words extract_summary",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
