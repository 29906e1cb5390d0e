"""Parts of a store that a process keeps in memory between searches."""

from __future__ import annotations

from devmem.collections.postgres.server.fields import FieldCache
from devmem.collections.postgres.server.posting_cache import PostingCache
from devmem.indexes.token_codes import TokenCache


class Caches:
    """Caches of one generation of a store, whose contents stay the same."""

    def __init__(self, store: int) -> None:
        """Start empty; `store` is the number of the store."""
        # Nothing is read ahead: a store that is searched in the database is too large for that.
        self.tokens = TokenCache(ahead=0)
        self.postings = PostingCache(store)
        self.fields = FieldCache()
