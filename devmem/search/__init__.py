"""The search pipeline, from candidates to selection, and the merging and rendering of what was recalled."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.model.interactions import Language as Language
    from devmem.search.merging import MergePolicy as MergePolicy
    from devmem.search.merging import by_conversation as by_conversation
    from devmem.search.merging import merge as merge
    from devmem.search.query import DAY as DAY
    from devmem.search.query import Ranking as Ranking
    from devmem.search.query import Weights as Weights
    from devmem.search.query import fuse as fuse
    from devmem.search.rendering import devall_score as devall_score
    from devmem.search.rendering import quote_labels as quote_labels
    from devmem.search.rendering import rank_as_devall as rank_as_devall
    from devmem.search.rendering import render as render
    from devmem.search.rendering import strip_recalled as strip_recalled
    from devmem.search.token_matching import QueryTokens as QueryTokens
    from devmem.search.token_matching import Scores as Scores
    from devmem.search.token_matching import code_width as code_width
    from devmem.search.token_matching import weigh as weigh
else:
    _ORIGINS = {
        "devmem.model.interactions": "Language",
        "devmem.search.merging": "MergePolicy by_conversation merge",
        "devmem.search.query": "DAY Ranking Weights fuse",
        "devmem.search.rendering": "devall_score quote_labels rank_as_devall render strip_recalled",
        "devmem.search.token_matching": "QueryTokens Scores code_width weigh",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
