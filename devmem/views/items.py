"""JSON form of items and hits, shared by the command line, the web page and the tool servers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from devmem.model.items import MemoryItem, dump_item
from devmem.model.results import Hit

JsonObject: TypeAlias = dict[str, Any]
"""An object that `json.dumps` writes as it is."""

SIGNALS: Final = ("score", "similarity", "lexical", "recency", "rerank")
"""The signals of a hit, in the order in which they are shown."""


def item_json(item: MemoryItem) -> JsonObject:
    """Return an item without its embedding; keys without a value are left out.

    The keys are those of `dump_item`: `id`, `content_summary`, `metadata`, `timestamp` (when it was stored),
    `event_time`, `expires_at`, `input_snapshot`, `output_snapshot`, `scope`, `provenance`, `trust`, `content_hash`.
    Times are seconds since the epoch, UTC.
    """
    return {key: value for key, value in dump_item(item).items() if key != "embedding"}


def hit_json(hit: Hit, *, waiting: bool | None = None, parts: bool = False) -> JsonObject:
    """Return a hit: `store`, `id`, `text`, `passage` and `field` (what was found), every signal, the rest of the item.

    A signal that does not apply is null.

    Args:
        hit: what a search returned.
        waiting: whether the item's embedding is still to be made (`waiting_ids`); None leaves the key out.
        parts: whether to add `parts`, the contributions to the score by name.
    """
    item = item_json(hit.item)
    form: JsonObject = {"store": hit.store, "id": item.pop("id"), "text": item.pop("content_summary")}
    if hit.passage is not None:
        form["passage"] = hit.passage
    if hit.field is not None:
        form["field"] = hit.field
    if hit.related:
        form["related"] = list(hit.related)
    form |= {name: getattr(hit, name) for name in SIGNALS} | item
    if waiting is not None:
        form["waiting"] = waiting
    if parts:
        form["parts"] = dict(hit.parts)
    return form


def waiting_ids(hits: Iterable[Hit]) -> frozenset[str]:
    """Return the ids of the items among the hits whose embedding is still to be made; each store has its own model."""
    found = list(hits)
    # A hit without a similarity tells something about its item only if the query had an embedding, and was searched:
    # the latest items, which some stores return unasked, have no signal at all.
    by_meaning = {hit.store for hit in found if hit.similarity is not None}
    return frozenset(
        hit.item.id for hit in found if hit.store in by_meaning and hit.similarity is None and hit.lexical is not None
    )
