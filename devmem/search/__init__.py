"""The search pipeline, from candidates to selection, and the merging and rendering of what was recalled."""

from devmem.lazy_names import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(__name__, __file__)
