"""devmem as the memory of ChatDev 2 (DevAll): one line where ChatDev starts.

from devmem.adapters.chatdev import install; install()
"""

from devmem.adapters.chatdev.installing import install, uninstall

__all__ = ["install", "uninstall"]
