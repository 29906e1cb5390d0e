"""Text processing without a model: terms, sentences, passages, times, token estimates; and files and calls."""

from devmem.lazy_names import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(__name__, __file__)
