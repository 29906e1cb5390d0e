"""The `file` store type."""

from devmem.lazy_names import lazy_names as _lazy_names

# The process that parses files imports neither.
__getattr__, __dir__ = _lazy_names(__name__, __file__)
