"""Declared memory for multi-agent workflows: stores in YAML, attached to agents, found again in the next run.

Authors of store types import from `devmem.stores`; messages are in `devmem.messages`, collections in
`devmem.storage`, every error in `devmem.errors`.

Names are imported when they are first used, so that importing devmem costs little.
"""

from devmem.errors import NAME as _NAME
from devmem.installation import check_installation as _check_installation
from devmem.lazy_names import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(__name__, __file__)
__distribution__ = _NAME
_check_installation()
