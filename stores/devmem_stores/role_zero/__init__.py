"""The `role_zero` store type."""

from devmem_stores.role_zero.config import RoleZeroConfig
from devmem_stores.role_zero.store import RoleZeroMemory

__all__ = ["RoleZeroConfig", "RoleZeroMemory"]
