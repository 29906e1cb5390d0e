"""The `blackboard` store type."""

from devmem_stores.blackboard.config import BlackboardConfig
from devmem_stores.blackboard.store import BlackboardMemory

__all__ = ["BlackboardConfig", "BlackboardMemory"]
