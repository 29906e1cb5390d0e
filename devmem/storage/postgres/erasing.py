"""Erasing items with every version from a store, in one transaction: the files of the server are out of reach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import uuid4

from devmem.storage.erasing import ErasableStore, end_plan, erase_planned
from devmem.storage.erasure import ErasePlan, EraseResult, Residue
from devmem.storage.postgres.reader import PostgresReader
from devmem.storage.tables import StoreTables

_OUT_OF_REACH: Final = (
    "the server keeps deleted rows in its files until it vacuums them, and what the service keeps in logs, replicas "
    "and backups is out of reach"
)
_SESSION: Final = "SELECT pid, extract(epoch FROM backend_start)::bigint, extract(epoch FROM now())::bigint"
_OWN: Final = f"{_SESSION} FROM pg_stat_activity WHERE pid = pg_backend_pid()"
# Another user's sessions show no start, and a pooler's go on when their client is gone.
_IS_THERE: Final = (
    "SELECT FROM pg_stat_activity WHERE pid = ? AND ? > extract(epoch FROM now() - interval '10 minutes') "
    "AND COALESCE(extract(epoch FROM backend_start)::bigint = ?, true)"
)


class PostgresEraser(ErasableStore, PostgresReader):
    """The methods of `ErasableCollection` and `TombstoneCollection`."""

    def _begin_work(self) -> str:
        """Return the id of a new plan, which names this session and the time."""
        ((pid, start, now),) = self._fetch(_OWN, ())
        return f"{uuid4().hex}.{pid}.{start}.{now}"

    def _end_work(self, plan_id: str) -> None:
        """Do nothing: a plan that was not ended is finished when its session is gone."""

    def _is_executed(self, plan: ErasePlan) -> bool:
        _, *session = plan.id.split(".")
        if not session:
            return False
        pid, start, begun = map(int, session)
        return bool(self._fetch(_IS_THERE, (pid, begun, start)))

    def _attachments_of(self, bodies: Iterable[Any]) -> set[str]:  # noqa: ARG002 - rows of the database, which go too
        return set()

    def finish_erasure(
        self,
        plan: ErasePlan,
        words: Sequence[str] = (),  # noqa: ARG002 - no files
        *,
        vacuum: bool = False,  # noqa: ARG002
    ) -> EraseResult:
        """Remove what is planned, with every version."""

        def finish(tables: StoreTables) -> None:
            erase_planned(tables, plan)
            end_plan(tables, plan)
            # The hashes of terms that no passage has any more tell what was erased.
            tables.execute(f"DELETE FROM terms WHERE {tables.of} AND texts <= 0")

        self._removing(finish)
        return EraseResult(items=plan.items, residues=(Residue(place=self.location, reason=_OUT_OF_REACH),))

    def apply_tombstones(self) -> EraseResult:
        """Do nothing: what is restored into the database has the tombstones of its own time."""
        return EraseResult()
