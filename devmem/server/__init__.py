"""A memory served to several users: tokens, the guard before every request, and the plain HTTP interface."""

from devmem.lazy_names import lazy_names as _lazy_names

# The forms of requests and answers, which commands use, need no server.
__getattr__, __dir__ = _lazy_names(__name__, __file__)
