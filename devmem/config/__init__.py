"""Workflow files to validated models, and what the models give for free.

`load_workflow` reads a file; everything that is wrong with it comes in one `ConfigError`, each problem with file, line
and path.
"""

from devmem.lazy_names import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(__name__, __file__)
