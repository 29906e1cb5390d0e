"""Places that keep items durable and searchable: SQLite files, PostgreSQL, memory, and DevAll's JSON files."""

from devmem.lazy_names import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(__name__, __file__)
