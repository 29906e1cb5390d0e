"""A storage backend for CrewAI's memory; needs the extra `crewai`."""

from devmem.adapters.hosts import require as _require

_require("crewai.memory.types", package="crewai", extra="crewai")

from devmem.adapters.crewai.storage import DevmemStorage  # noqa: E402 - first the error that names the extra

__all__ = ["DevmemStorage"]
