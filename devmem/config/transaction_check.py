"""Check that the stores of a workflow can take part in its transactions."""

from __future__ import annotations

from collections.abc import Sequence

from devmem.config.document import Path
from devmem.config.report import Report
from devmem.config.store import StoreDeclaration
from devmem.config.workflow import NodeConfig


def written_stores(stores: Sequence[StoreDeclaration], nodes: Sequence[NodeConfig]) -> list[StoreDeclaration]:
    """Return the stores that agents write to, in their order."""
    attached = (entry for node in nodes if node.config is not None for entry in node.config.memories)
    written = {entry.name for entry in attached if entry.write}
    return [store for store in stores if store.name in written and not getattr(store.config, "read_only", False)]


def check_transaction(
    report: Report, path: Path, stores: Sequence[StoreDeclaration], nodes: Sequence[NodeConfig]
) -> None:
    """Report the written stores that keep no versions, and so cannot hold what is not committed yet."""
    for store in written_stores(stores, nodes):
        location = getattr(store.config, "memory_path", None) or ""
        if not getattr(store.config, "keeps_versions", False):
            reason = f"stores of the type {store.type!r} cannot hold what is not committed yet"
        elif location.endswith(".json"):
            reason = f"the JSON file {location} cannot hold what is not committed yet; a path that ends with .db can"
        else:
            continue
        report.error(path, f"the store {store.name!r} cannot take part in a transaction: {reason}")
