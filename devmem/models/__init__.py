"""Providers of models: texts to vectors, messages to text, hits to scores; all plugins."""

from devmem.lazy_names import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(__name__, __file__)
