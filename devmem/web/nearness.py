"""The words of hits that met a question by meaning: late interaction, as the search itself compares tokens."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Sequence
from typing import Final

import numpy as np

from devmem.errors import EmbeddingError
from devmem.models.embedder import READABLE, TokenEmbedding
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.memory import MemoryBase, QueryEmbedding
from devmem.text.analysis import forms_question, is_content

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
    store: MemoryBase, question: QueryEmbedding, texts: Sequence[str], *, share: float = 1.0
) -> list[frozenset[str]]:
    """Return the folded words of each text that are the nearest ones of a telling word of the question, and close.

    Only the starts of the first texts are compared, so the page stays quick; the rest has none, nor have the texts of
    a store that compares no tokens, and a question that its model cannot read.

    Args:
        store: searched for the question.
        question: as the search embedded it.
        texts: the hits' texts, the best first.
        share: part of the page's time that this store may take, up to 1.
    """
    found = [frozenset[str]()] * len(texts)
    if not (texts and isinstance(store, CollectionMemory) and store.embedder and (model := store.token_embedder)):
        return found
    asked = question.tokens_by(store.embedder)
    if asked is None or not len(asked.tokens) or asked.known < READABLE:
        return found
    heads = texts[:_MOST_TEXTS]
    room = int(_MOST_CHARACTERS * share / len(heads))
    try:
        made = model.embed_tokens([text[:room] for text in heads])
    except EmbeddingError as error:
        _LOG.warning("The page marks no words by meaning: %s", error)
        return found
    return [*(_near(asked, one) for one in made), *found[len(heads) :]]


def _near(asked: TokenEmbedding, text: TokenEmbedding) -> frozenset[str]:
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
