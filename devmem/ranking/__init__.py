"""Ranking candidates: fusing, late interaction, evidence, diversity; plain arrays, no I/O."""

from devmem.ranking.conversations import ConversationEvidence, first_mentions, nearness, weigh_conversations
from devmem.ranking.evidence import Candidates, Evidence, weigh_evidence, with_surroundings
from devmem.ranking.fusing import Weights, fuse
from devmem.ranking.late_interaction import QueryTokens, Scores, code_width, weigh
from devmem.ranking.options import DAY, Ranking

__all__ = [
    "DAY",
    "Candidates",
    "ConversationEvidence",
    "Evidence",
    "QueryTokens",
    "Ranking",
    "Scores",
    "Weights",
    "code_width",
    "first_mentions",
    "fuse",
    "nearness",
    "weigh",
    "weigh_conversations",
    "weigh_evidence",
    "with_surroundings",
]
