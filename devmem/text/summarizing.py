"""Extractive summaries without a model: the most informative sentences of a text, in their order.

The choice is that of SumBasic (Nenkova and Vanderwende, "The Impact of Frequency on Summarization", 2005): a sentence
is worth the frequency of its words, and words that were chosen count less from then on, so that nothing is repeated.
They count half here, not squared as there: in short texts a greeting would outweigh a second word on the topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Final

from devmem.text.analysis import query_terms, split_sentences, words

_DAMPING: Final = 10
"""Added to a sentence's length, so that a greeting of two frequent words is not worth more than a statement."""


def count_words(text: str) -> int:
    """Count the words; a character of a script without spaces counts as one."""
    return sum(1 for _ in words(text))


def extract_summary(text: str, max_words: int) -> str:
    """Return the most informative sentences of a text, in their order, at most `max_words` words in all.

    A text that is short enough is returned unchanged; a first sentence that is too long is cut.
    """
    text = text.strip()
    if count_words(text) <= max_words:
        return text
    sentences = split_sentences(text)
    chosen = chosen_sentences(sentences, max_words)
    if not chosen:
        return first_words(text, max_words)
    return "".join(sentences[at] for at in sorted(chosen)).strip()


def first_words(text: str, max_words: int) -> str:
    """Cut the text after its first words."""
    ends = [end for _, end in zip(range(max_words), words(text), strict=False)]
    return text[: ends[-1]] if ends else ""


def chosen_sentences(sentences: Sequence[str], max_words: int) -> set[int]:
    """Return the places of the most informative sentences, at most `max_words` words in all."""
    said = [query_terms(sentence) for sentence in sentences]
    counts = Counter(term for terms in said for term in terms)
    total = counts.total() or 1
    chance = {term: count / total for term, count in counts.items()}

    def worth(at: int) -> float:
        return sum(chance[term] for term in said[at]) / (len(said[at]) + _DAMPING)

    waiting = [(-worth(at), at) for at, terms in enumerate(said) if terms]
    heapify(waiting)
    chosen: set[int] = set()
    room = max_words
    while waiting and room > 0:
        at = waiting[0][1]
        # A sentence is only ever worth less than it was: the first that is still worth its place is the best.
        if (now := -worth(at)) > waiting[0][0]:
            heapreplace(waiting, (now, at))
            continue
        heappop(waiting)
        if (length := count_words(sentences[at])) > room:
            continue
        chosen.add(at)
        room -= length
        for term in said[at]:
            chance[term] /= 2
    return chosen


_OVERLAP: Final = 20
_USUAL_WINDOW: Final = 500


def split_texts(text: str, window_size: int) -> list[str]:
    """Split a text into windows of `window_size` characters, each starting with the last 20 of the one before.

    A text that fits is one window. Windows of 20 characters or less do not overlap; 0 or less means 500. Where the last
    whole window ends with the text, one more follows that repeats its end, as in MetaGPT.
    """
    size = window_size if window_size > 0 else _USUAL_WINDOW
    return [text] if len(text) <= size else list(_windows(text, size))


def _windows(text: str, size: int) -> Iterator[str]:
    step = size - _OVERLAP if size > _OVERLAP else size
    for start in range(0, len(text), step):
        yield text[start : start + size]
        if start + size > len(text):
            return


def message_windows(text: str, window_size: int) -> list[str]:
    """Split a text into about equal windows of whole lines, each a message, of at most `window_size` characters.

    A longer line is split after sentences; a longer sentence between words, or anywhere where it has none.
    """
    windows: list[str] = []
    left = len(text)
    room = target = 0
    for piece in (piece for line in text.splitlines(keepends=True) for piece in _pieces(line, window_size)):
        if not windows or len(piece) > room or len(windows[-1]) + len(piece) / 2 > target:
            windows.append("")
            # None of the windows that are still to come is much shorter than the others.
            room, target = window_size, left // -(-left // window_size)
        windows[-1] += piece
        room -= len(piece)
        left -= len(piece)
    return [window.strip("\r\n") for window in windows]


def _pieces(line: str, limit: int) -> list[str]:
    """Return a line in pieces of at most `limit` characters."""
    if len(line) <= limit:
        return [line]
    if len(sentences := split_sentences(line)) > 1:
        return [piece for sentence in sentences for piece in _pieces(sentence, limit)]
    even = len(line) // -(-len(line) // limit)
    cut = line.find(" ", even, limit) + 1 or line.rfind(" ", limit // 2, limit) + 1 or limit
    return [line[:cut], *_pieces(line[cut:], limit)]
