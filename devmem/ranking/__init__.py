"""Ranking of candidates: fusion, late interaction, features, diversity; plain arrays, no I/O."""

from devmem.ranking.conversations import ConversationBreakdown, first_mentions, nearness, score_conversations
from devmem.ranking.fusion import Weights, fuse
from devmem.ranking.late_interaction import QueryTokens, Scores, code_width, weigh
from devmem.ranking.options import DAY, Ranking
from devmem.ranking.score import ContextFeatures, Features, ScoreBreakdown, add_context, overview_scores, score_features

__all__ = [
    "DAY",
    "ContextFeatures",
    "ConversationBreakdown",
    "Features",
    "QueryTokens",
    "Ranking",
    "ScoreBreakdown",
    "Scores",
    "Weights",
    "add_context",
    "code_width",
    "first_mentions",
    "fuse",
    "nearness",
    "overview_scores",
    "score_conversations",
    "score_features",
    "weigh",
]
