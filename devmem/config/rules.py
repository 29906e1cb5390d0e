"""The rules about names: what the stores and the blocks of a whole document say of one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from devmem.config.document import DocumentPath, Report
from devmem.config.findings import Rule, choices, did_you_mean, quoted
from devmem.config.store import StoreDeclaration
from devmem.config.workflow import ConversationRecording, Subgraph, written_stores


def check_store(report: Report, path: DocumentPath, name: str, stores: Iterable[str]) -> None:
    """Refuse a name that no store has."""
    if name not in (names := [*stores]):
        message = f"there is no store {quoted(name)}{did_you_mean(name, names)} Declared stores: {choices(names)}."
        report.error(path, message, Rule.UNKNOWN_NAME)


def check_document(report: Report, graph: Subgraph, options: Mapping[str, Any]) -> None:
    """Check what the stores and the blocks of a whole document say of one another."""
    declared = {store.name: store for store in graph.memory}
    recording: ConversationRecording | None = options["conversation"]
    if recording is not None:
        _check_recording(report, recording, declared)
    for store in graph.memory:
        _check_composed(report, store, declared)
    _check_encryption(report, graph.memory)
    for store in written_stores(graph.memory, graph.nodes) if options["transaction"] else ():
        location = getattr(store.config, "memory_path", None) or ""
        if not getattr(store.config, "keeps_versions", False):
            reason = f"stores of the type {store.type!r} cannot hold what is not committed yet"
        elif location.endswith(".json"):
            reason = f"the JSON file {location} cannot hold what is not committed yet; one that ends with .db can"
        else:
            continue
        report.error(("transaction",), f"the store {store.name!r} cannot take part in a transaction: {reason}")


def _check_recording(report: Report, block: ConversationRecording, declared: Mapping[str, StoreDeclaration]) -> None:
    for index, rule in enumerate(block.copies):
        where = ("conversation", "copies", index, "into")
        check_store(report, where, rule.into, declared)
        if rule.into == block.store:
            report.error(where, f"the records are in {quoted(rule.into)} already; name another store")
    check_store(report, ("conversation", "store"), block.store, declared)
    store = declared.get(block.store)
    if store is not None and not getattr(store.config, "keeps_records", False):
        message = f"stores of type {store.type!r} keep no records; name one of type 'conversation'"
        report.error(("conversation", "store"), message)


def _check_composed(report: Report, store: StoreDeclaration, declared: Mapping[str, StoreDeclaration]) -> None:
    """Check the names of the stores that another is made of."""
    for index, name in enumerate(getattr(store.config, "composes", ())):
        where, part = (*store.place.location, "config", "stores", index), declared.get(name)
        if part is None:
            check_store(report, where, name, declared.keys() - {store.name})
        elif getattr(part.config, "composes", ()):
            report.error(where, f"{quoted(name)} is itself made of other stores; name those")
        elif getattr(part.config, "memory_path", "auto") is None:
            message = f"{quoted(name)} keeps its items for this process only: give it a `memory_path`"
            report.error(where, message)


def _check_encryption(report: Report, stores: Sequence[StoreDeclaration]) -> None:
    """Report what would be written in plain beside encrypted stores, and stores that do not share their key."""
    blocks = {store.name: block for store in stores if (block := getattr(store.config, "encryption", None))}
    first = next(iter(blocks), "")
    for store in stores if blocks else ():
        path = (*store.place.location, "config")
        if blocks.get(store.name) == blocks[first]:
            continue
        if store.name in blocks:
            path = (*path, "encryption")
            message = f"the files of a session have one key: name that of {quoted(first)}"
        elif "memory_path" not in type(store.config).model_fields:
            message = f"stores of the type {store.type!r} keep files that are not encrypted as {quoted(first)} is"
        elif getattr(store.config, "memory_path", None) and not getattr(store.config, "sends_to", ()):
            message = f"this store's file is plain, and that of {quoted(first)} encrypted: give both `encryption`"
        else:
            continue
        report.error(path, message, Rule.PLAIN_FILE)
