"""Stored texts as the page shows them: marked where a question met them, by words or meaning, and never as markup."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, Literal

import numpy as np

from devmem.errors import EmbeddingError
from devmem.model.results import SearchReport
from devmem.models.embedder import READABLE, TokenEmbedding
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.memory import MemoryBase
from devmem.stores.query_embedding import QueryEmbedding
from devmem.text.analysis import forms_question, is_content, mostly_unspaced, query_terms, terms
from devmem.text.display import visible

_LOG = logging.getLogger(__name__)

_LEAST: Final = 0.42
"""Least cosine of two tokens that are close. With all-MiniLM-L6-v2, kittens and pets have 0.48, Tokyo and Japan 0.73,
works and living 0.54, shrimp and food 0.43; words of texts on another subject stay below 0.2, with
multilingual-e5-small too."""
_MOST_TEXTS: Final = 10
_MOST_CHARACTERS: Final = 800
"""Characters of all texts together that are compared, from the start of each; `minilm` takes some 60 ms for them, `e5`
100."""


def near_words(
    store: MemoryBase, question: QueryEmbedding, report: SearchReport, *, share: float = 1.0
) -> list[frozenset[str]]:
    """Return the folded words of each hit that are the nearest ones of a telling word of the question, and close.

    Only the starts of the first texts are compared, so the page stays quick; the rest has none, nor have the texts of
    a store that compares no tokens, and a question that its model cannot read.

    Args:
        store: searched for the question.
        question: as the search embedded it.
        report: of the search.
        share: part of the page's time that this store may take, up to 1.
    """
    texts = [hit.snippet for hit in report.hits]
    found = [frozenset[str]()] * len(texts)
    if not (texts and isinstance(store, CollectionMemory) and store.embedder and (model := store.token_embedder)):
        return found
    focused = question.focused() if store.ranking.focus else question
    asked = focused.corrected(report.corrected).tokens_by(store.embedder)
    if asked is None or not len(asked.tokens) or asked.known < READABLE:
        return found
    heads = texts[:_MOST_TEXTS]
    room = int(_MOST_CHARACTERS * share / len(heads))
    try:
        made = model.embed_tokens([text[:room] for text in heads])
    except EmbeddingError as error:
        _LOG.warning("The page marks no words by meaning: %s", error)
        return found
    return [*(_words_near(asked, one) for one in made), *found[len(heads) :]]


def _words_near(asked: TokenEmbedding, text: TokenEmbedding) -> frozenset[str]:
    telling = [
        at for at, pair in enumerate(zip(asked.words, ("", *asked.words), strict=False))
        if is_content(pair[0]) and not forms_question(*pair)
    ]  # fmt: skip
    content = [at for at, word in enumerate(text.words) if is_content(word)]
    if not telling or not content or text.known < READABLE:
        return frozenset()
    cosines = asked.tokens[telling] @ text.tokens[content].T
    best, nearest = cosines.max(axis=1), cosines.argmax(axis=1)
    return frozenset(folded(text.words[content[at]]) for at in np.unique(nearest[best >= _LEAST]))


def folded(word: str) -> str:
    """Return a word without case and accents, as models of either kind have it."""
    apart = unicodedata.normalize("NFD", word.casefold())
    return "".join(char for char in apart if unicodedata.category(char) != "Mn")


LONGEST: Final = 20_000
"""Characters of one text on a page; the whole is a download."""
_WORD: Final = re.compile(r"\w+")
_TOKENS: Final = re.compile(r"\w+|\s+|[^\w\s]")
_HIT: Final = b"\2"
_NEAR: Final = b"\1"
_STRETCHES: Final = re.compile(b"\x00+|\x01+|\x02+")
_COVERED: Final = re.compile(b"\x01+")
_MOST_TOKENS: Final = 4_000
"""Tokens of texts that are compared word by word; longer ones are compared by lines."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A part of a text."""

    text: str
    mark: Literal["", "hit", "near", "ins", "del"] = ""


def shown(text: str) -> str:
    """Return a text for a page: characters that steer the order of a line are visible, and its end may be cut."""
    return visible(text[:LONGEST]) + ("…" if len(text) > LONGEST else "")


def marked(text: str, question: str, near: frozenset[str] = frozenset()) -> list[TextPiece]:
    """Return a text in pieces; those are marked whose words the question has, in any form that the search equates.

    Other words of `near`, which are folded, get a mark of their own.
    """
    cut = shown(text)
    marks = bytearray(len(cut))
    for start, end in _near(cut, near):
        marks[start:end] = _NEAR * (end - start)
    for start, end in _met(cut, frozenset(query_terms(question))):
        marks[start:end] = _HIT * (end - start)
    return [
        TextPiece(cut[run.start() : run.end()], "hit" if run[0].startswith(_HIT) else "near" if any(run[0]) else "")
        for run in _STRETCHES.finditer(marks)
    ]


def _near(text: str, words: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield the places of words; in scripts without spaces, of runs of them."""
    for word in _WORD.finditer(text) if words else ():
        if folded(word[0]) in words:
            yield word.span()
        elif mostly_unspaced(word[0]):
            yield from _runs(text, word.start(), word.end(), words)


def _met(text: str, wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield the places of words that were asked for; in scripts without spaces, of runs of terms."""
    for word in _WORD.finditer(text) if wanted else ():
        if len(terms(word[0])) <= 1:
            if wanted.intersection(terms(word[0])):
                yield word.span()
        else:
            yield from _runs(text, word.start(), word.end(), wanted)


def _runs(text: str, start: int, end: int, wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a text between two places that terms of the question cover; terms may overlap."""
    covered = bytearray(end - start)
    for term in wanted:
        at = text.find(term, start, end) if len(term) > 1 else -1
        while at >= 0:
            covered[at - start : at - start + len(term)] = b"\1" * len(term)
            at = text.find(term, at + 1, end)
    yield from ((start + run.start(), start + run.end()) for run in _COVERED.finditer(covered))


def compared(before: str, after: str) -> list[TextPiece]:
    """Return two texts as one, with what was taken out and what was put in."""
    old, new = _split(before), _split(after)
    if len(old) + len(new) > _MOST_TOKENS:
        old, new = shown(before).splitlines(keepends=True), shown(after).splitlines(keepends=True)
    pieces: list[TextPiece] = []
    for operation, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if operation == "equal":
            pieces.append(TextPiece("".join(old[start:end])))
            continue
        pieces += [TextPiece("".join(old[start:end]), "del")] if end > start else []
        pieces += [TextPiece("".join(new[new_start:new_end]), "ins")] if new_end > new_start else []
    return pieces


def _split(text: str) -> Sequence[str]:
    return _TOKENS.findall(shown(text))
