"""The search pipeline, from candidates to selection, and the merging and rendering of what was recalled."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.model.interactions import Language
    from devmem.search.conversations import ConversationBreakdown, first_mentions, nearness, score_conversations
    from devmem.search.merging import (
        MergePolicy,
        by_conversation,
        merge,
        repeats_recalled,
        says_nothing_new,
        with_related,
    )
    from devmem.search.query import DAY, Ranking, Weights, fuse
    from devmem.search.rendering import devall_score, quote_labels, rank_as_devall, render, strip_recalled
    from devmem.search.score import (
        ContextFeatures,
        Features,
        ScoreBreakdown,
        add_context,
        overview_scores,
        score_features,
    )
    from devmem.search.token_matching import QueryTokens, Scores, code_width, weigh
else:
    __getattr__, __dir__ = _lazy_names(__name__)

__all__ = [
    "DAY",
    "ContextFeatures",
    "ConversationBreakdown",
    "Features",
    "Language",
    "MergePolicy",
    "QueryTokens",
    "Ranking",
    "ScoreBreakdown",
    "Scores",
    "Weights",
    "add_context",
    "by_conversation",
    "code_width",
    "devall_score",
    "first_mentions",
    "fuse",
    "merge",
    "nearness",
    "overview_scores",
    "quote_labels",
    "rank_as_devall",
    "render",
    "repeats_recalled",
    "says_nothing_new",
    "score_conversations",
    "score_features",
    "strip_recalled",
    "weigh",
    "with_related",
]
