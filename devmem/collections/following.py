"""Following a database: one moment of it after the other, as indexes in memory."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from devmem.config import IndexConfig
from devmem.indexes.index_set import IndexReader, IndexSet
from devmem.indexes.locking import locked

Connection = TypeVar("Connection")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One moment of the database."""

    indexes: IndexReader
    model: str | None
    """Name of the model that made the embeddings."""
    generation: int
    """Grows when all embeddings are replaced, which keep the numbers of their passages."""


class Follower(ABC, Generic[Connection]):
    """Keeps an `IndexSet` up to date with a database. Thread-safe."""

    def __init__(self, config: IndexConfig | None) -> None:
        """Start empty; `config` says how vectors are searched, None takes the defaults."""
        self._lock = threading.Lock()
        self._config = config
        self.indexes = IndexSet(config)
        """Only to be changed or read while no other thread follows."""
        self._moment: Moment | None = None
        """None as long as the indexes are not those of the database."""
        self._generation = 0
        """Generation of the database that the indexes are of."""

    @abstractmethod
    def _poll(self, connection: Connection) -> bool:
        """Whether the database may have changed since the moment; the first statement of a transaction."""

    @abstractmethod
    def _catch_up(self, connection: Connection, now: float) -> str | None:
        """Apply what was committed since the moment, or begin again where `_moment` is None; return the model's name.

        `now` is in seconds since the epoch.
        """

    def _is_untouched(self, error: BaseException) -> bool:  # noqa: ARG002 - of a subclass
        """Whether the indexes are those of the moment after an error; False where that is not known."""
        return False

    def follow(self, connection: Connection, now: float) -> Moment:
        """Bring the indexes up to date with the connection's read transaction, and return them as of that moment.

        This has to be the first statement of the transaction: it fixes the moment that the transaction reads while no
        other thread can bring the indexes further.

        Args:
            connection: in a transaction.
            now: items that expired until then are not in the indexes; seconds since the epoch.
        """
        return locked(self._lock, lambda: self._follow(connection, now))

    def _follow(self, connection: Connection, now: float) -> Moment:
        try:
            if self._moment is not None and now < self.indexes.expired_until:
                # The clock went back: items that had expired are there again.
                self._moment = None
            if self._poll(connection) or self._moment is None:
                model = self._catch_up(connection, now)
            else:
                model = self._moment.model
            self.indexes.expire(now)
        except BaseException as error:
            # What was applied in part would be applied twice: the next call starts again.
            if not self._is_untouched(error):
                self._moment = None
            raise
        self._moment = Moment(indexes=self.indexes.reader(), model=model, generation=self._generation)
        return self._moment
