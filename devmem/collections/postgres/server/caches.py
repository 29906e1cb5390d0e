"""Parts of a store that a process keeps in memory between searches."""

from __future__ import annotations

import threading
from collections.abc import Hashable

from devmem.collections.postgres.server.fields import FieldCache
from devmem.collections.postgres.server.posting_cache import PostingCache
from devmem.indexes.locking import locked
from devmem.indexes.token_codes import TokenCache


class Caches:
    """Caches of one generation of a store, whose contents stay the same."""

    def __init__(self, store: int) -> None:
        # Nothing is read ahead: a store that is searched in the database is too large for that.
        self.tokens = TokenCache(ahead=0)
        self.postings = PostingCache(store)
        self.fields = FieldCache()


class GenerationCaches:
    """The caches of one generation after the other. Thread-safe; a search goes on with those that it was given."""

    def __init__(self, store: int) -> None:
        """Start empty; `store` is the number of the store."""
        self._lock = threading.Lock()
        self._store = store
        self._generation: Hashable = None
        self._caches = Caches(store)

    def of(self, generation: Hashable) -> Caches:
        """Return the caches of a generation: new ones where the last were of another."""
        return locked(self._lock, lambda: self._of(generation))

    def _of(self, generation: Hashable) -> Caches:
        if generation != self._generation:
            self._generation, self._caches = generation, Caches(self._store)
        return self._caches

    def clear(self) -> None:
        """Forget everything."""
        locked(self._lock, lambda: self._of(None))
