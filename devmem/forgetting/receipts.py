"""The receipt of a forgetting over several stores."""

from __future__ import annotations

from dataclasses import dataclass

from devmem.collections import Unreached
from devmem.collections.exports import ExportRecord
from devmem.stores.forgetting import ForgetReceipt


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowReceipt:
    """Receipt of a forgetting in every store of a workflow, or of a dry run."""

    stores: tuple[ForgetReceipt, ...] = ()
    """Of each store that had something to forget."""
    writes: int = 0
    """Number of writes that no store had yet."""
    reached: tuple[str, ...] = ()
    """Files, beside those of the stores' own receipts, that were searched and hold nothing of the items."""
    unreached: tuple[Unreached, ...] = ()
    """Places, beside those of the stores' own receipts, that still hold something or could not be searched."""

    @property
    def items(self) -> int:
        """Number of items, derived ones and copies included."""
        return sum(receipt.items for receipt in self.stores)

    @property
    def exports(self) -> tuple[ExportRecord, ...]:
        """Exports and backups that were made before and may hold some of the items; they are not reached."""
        return tuple(dict.fromkeys(export for receipt in self.stores for export in receipt.exports))

    @property
    def left(self) -> tuple[Unreached, ...]:
        """Every place that was not reached, without exports."""
        return (*(left for receipt in self.stores for left in receipt.unreached), *self.unreached)
