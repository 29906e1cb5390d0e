"""Misspelled words of a query: which of the words that may be meant the searched passages have."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from devmem.model.items import Vector
from devmem.models.embedder import TokenEmbedding
from devmem.text.analysis import STOP_WORDS, stem
from devmem.text.query_text import QueryText
from devmem.text.spelling import Meant, corrected, meant_by, suspects

if TYPE_CHECKING:
    from devmem.search.query import SearchQuery
    from devmem.search.source import QueryContext

Signals: TypeAlias = "tuple[Vector | None, TokenEmbedding | None]"

_LEAST_UNCHECKED: Final = 2
"""Number of passages that have a word which no vocabulary knows: one may have the same typo."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpellingCheck:
    """How the misspelled words of a query are found and replaced."""

    vocabulary: Container[str] | None = None
    """Words in small letters that the embedding model knows, the only ones that may be meant; None for any word."""
    embed: Callable[[Mapping[str, str]], Signals] | None = None
    """Embeds the query with some of its words replaced; None leaves its embedding unchanged."""

    def corrections(self, context: QueryContext) -> dict[str, str]:
        """Return the misspelled words of a query, each with the word that is meant.

        A word counts as misspelled where no passage that may be found has it. Of the words that these have, the most
        probable one is meant: by the likelihood of the error times the number of passages with the word.
        """
        words = [word for word in suspects(context.text, self.vocabulary) if not context.words.frequency(stem(word))]
        meant = meant_by(words, self.vocabulary) if words else {}
        asked = list({one.term for each in meant.values() for one in each}.difference(STOP_WORDS))
        if not asked:
            return {}
        counts = context.indexes.postings.frequencies(asked, context.matches.passages)
        best = {word: _best(each, counts) for word, each in meant.items() if each}
        least = _LEAST_UNCHECKED if self.vocabulary is None else 1
        return {
            word: one.word
            for word, one in best.items()
            # Deleted passages may be counted, and how many have a common word may be estimated.
            if counts.get(one.term, 0) >= least and _is_found(one.word, context) and not _is_found(word, context)
        }

    def applied(self, query: SearchQuery, by_word: Mapping[str, str]) -> SearchQuery:
        """Return a query with some of its words replaced, embedded again where that is possible."""
        changed = replace(query, text=corrected(query.text, by_word), corrected=by_word, spelling=None)
        vector, tokens = self.embed(by_word) if self.embed is not None else (None, None)
        return changed if vector is None else replace(changed, vector=vector, tokens=tokens)


def _is_found(word: str, context: QueryContext) -> bool:
    return len(context.indexes.postings.query(QueryText(word), context.matches.passages).top(1)) > 0


def _best(meant: list[Meant], counts: Mapping[str, int]) -> Meant:
    return max(meant, key=lambda one: one.likelihood * counts.get(one.term, 0))
