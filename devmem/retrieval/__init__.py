"""What becomes of hits: merged over stores, cut to a budget, written for an agent, recognised when they come back."""

from devmem.retrieval.devall import devall_score, rank_as_devall
from devmem.retrieval.echo import is_echo, says_nothing_new
from devmem.retrieval.grouping import by_conversation
from devmem.retrieval.merging import MergePolicy, merge
from devmem.retrieval.rendering import Language, render, strip_recalled

__all__ = [
    "Language",
    "MergePolicy",
    "by_conversation",
    "devall_score",
    "is_echo",
    "merge",
    "rank_as_devall",
    "render",
    "says_nothing_new",
    "strip_recalled",
]
