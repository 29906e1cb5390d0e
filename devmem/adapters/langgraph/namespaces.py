"""Listing the namespaces of a memory."""

from __future__ import annotations

from langgraph.store.base import ListNamespacesOp, MatchCondition

from devmem import Filter, Memory
from devmem.adapters.langgraph.items import NAMESPACE, OTHERS, SOURCE, Namespace, namespace_of
from devmem.collections import differs_from
from devmem.stores import CollectionMemory

_ANY_LABEL = "*"


def list_namespaces(memory: Memory, store: CollectionMemory, op: ListNamespacesOp) -> list[Namespace]:
    """Return the namespaces that have items, in order.

    Raises:
        ValueError: a condition matches by something else than a prefix or a suffix.
    """
    texts = store.values(f"metadata.{NAMESPACE}", memory.matching(Filter(source_name=SOURCE)))
    found = {namespace_of(str(text)) for text in texts}
    if memory.recent(1, where=Filter(source_name=differs_from(SOURCE))):
        found.add(OTHERS)
    matching = (each for each in found if all(_matches(each, condition) for condition in op.match_conditions or ()))
    cut = sorted({each[: op.max_depth] for each in matching})
    return cut[op.offset : op.offset + op.limit]


def _matches(namespace: Namespace, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    if condition.match_type == "prefix":
        labels = namespace[: len(path)]
    elif condition.match_type == "suffix":
        labels = namespace[len(namespace) - len(path) :]
    else:
        raise ValueError(f"{condition.match_type!r} is no match type; there are 'prefix' and 'suffix'")
    return all(wanted in (_ANY_LABEL, label) for wanted, label in zip(path, labels, strict=True))
