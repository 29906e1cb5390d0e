"""From hits to what an agent is shown: merging over stores, token budget, rendering, and recognition of echoes."""

from devmem.model.side_labels import Language
from devmem.recall.devall import devall_score, rank_as_devall
from devmem.recall.echo import is_echo, says_nothing_new
from devmem.recall.group import by_conversation
from devmem.recall.merge import MergePolicy, merge
from devmem.recall.related import with_related
from devmem.recall.render import render, strip_recalled

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
    "with_related",
]
