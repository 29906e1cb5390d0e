"""Recording what users, agents, tools, language models and knowledge say to each other, once, with its cause."""

from devmem.lazy_names import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(__name__, __file__)
