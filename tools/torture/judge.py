"""The judge: it compares a store with what was acknowledged, and its searches with an exhaustive scan."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection as Container
from random import Random
from typing import Final

import numpy as np

from devmem.storage import SearchQuery, Weights
from devmem.stores import CollectionMemory, MemoryQuery
from tools.torture.results import Result
from tools.torture.stores import EMBEDDER, SEARCHED

TOKEN: Final = re.compile(r"\bw\d+x\d+\b")
_ASKED: Final = 3
"""Number of tokens that are searched for after each round."""
_NEAREST: Final = 10
_MOST_SCANNED: Final = 20_000
_ROUNDED: Final = 1e-2
"""Difference that rounding vectors of 32 components to bytes may make to a similarity."""


def tokens_of(store: CollectionMemory) -> Counter[str]:
    """Count the items in which each token is."""
    found: Counter[str] = Counter()
    for item in store.scan():
        found.update(set(TOKEN.findall(item.full_text())))
    return found


def check_items(store: CollectionMemory, acknowledged: Container[str], result: Result, where: str) -> None:
    """Compare the items with the tokens whose writes were acknowledged; more than those may be there once."""
    found = tokens_of(store)
    if missing := set(acknowledged) - set(found):
        result.fail("lost", f"{where}: {sorted(missing)[:3]}", len(missing))
    if doubled := [token for token, count in found.items() if count > 1]:
        result.fail("doubled", f"{where}: {doubled[:3]}", len(doubled))


def check_searches(
    store: CollectionMemory, kind: str, acknowledged: Container[str], chance: Random, result: Result
) -> None:
    """Search for some of the tokens by words, and compare the nearest vectors with an exhaustive comparison."""
    tokens = sorted(acknowledged)
    if kind not in SEARCHED or not tokens:
        return
    for token in chance.sample(tokens, min(_ASKED, len(tokens))):
        hits = store.search(MemoryQuery(text=token, limit=5))
        if not any(token in hit.item.full_text() for hit in hits):
            result.fail("wrong", f"{kind}: {token} is not found by its own word")
    _check_nearest(store, chance.choice(tokens), result)


def _check_nearest(store: CollectionMemory, text: str, result: Result) -> None:
    items = [item for item in store.collection.scan() if item.embedding is not None]
    if not 0 < len(items) <= _MOST_SCANNED:
        return
    vector = EMBEDDER.vector(text)
    exact = np.sort(np.stack([item.embedding for item in items if item.embedding is not None]) @ vector)[::-1]
    query = SearchQuery(vector=vector, limit=_NEAREST, weights=Weights(similarity=1.0, lexical=0.0))
    found = [hit.similarity or 0.0 for hit in store.collection.search(query)]
    wanted = exact[: len(found)]
    if len(found) != min(_NEAREST, len(items)) or not np.allclose(found, wanted, atol=_ROUNDED):
        result.fail("wrong", f"the nearest vectors are {wanted[:3].tolist()}, found {found[:3]}")
