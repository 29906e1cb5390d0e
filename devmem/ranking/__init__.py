"""Ranking candidates: fusing, late interaction, evidence, diversity; plain arrays, no I/O."""

from devmem.ranking.evidence import Candidates, Evidence, weigh_evidence, with_surroundings
from devmem.ranking.fusing import Weights, fuse
from devmem.ranking.late_interaction import QueryTokens, code_width, weigh
from devmem.ranking.options import DAY, Ranking

__all__ = [
    "DAY",
    "Candidates",
    "Evidence",
    "QueryTokens",
    "Ranking",
    "Weights",
    "code_width",
    "fuse",
    "weigh",
    "weigh_evidence",
    "with_surroundings",
]
