"""A workflow's memory at work: attachments, stages, the manager, the runner."""

from devmem.lazy_names import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(__name__, __file__)
