"""The search pipeline, from candidates to selection, and the merging and rendering of what was recalled."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.search.rendering import quote_labels as quote_labels
else:
    __getattr__, __dir__ = _lazy_names(__name__, {"devmem.search.rendering": "quote_labels"})
