"""The front door: a memory that is opened by a path and used with strings."""

from devmem.lazy_names import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(__name__, __file__)
