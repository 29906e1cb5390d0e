"""Attempts to reach another user's items by search, listing and deletion, with names that are easily confused."""

from __future__ import annotations

from random import Random
from typing import Final

from devmem import Filter, MemoryItem, Scope
from devmem.storage import SearchQuery, Unique
from devmem.stores import CollectionMemory, MemoryQuery
from tools.torture.results import Plan, Result
from tools.torture.stores import EMBEDDER, opened, prepare

_USERS: Final = (
    *("ann", "Ann", "ANN", "ann ", " ann", "an", "annn", "ann\n", "ann:", "ann:c", "ann%", "ann_", "ann*"),
    *(
        "ann'",
        'ann"',
        "ann\\",
        "ann/..",
        "ａｎｎ",
        "ann\u200b",
        "ann\u202e",
        "a\u0301nn",
        "ánn",
        "аnn",
        "安",
        "安\ufe00",
    ),
    *("0", "00", "1", "1.0", "true", "null", "None", "$user", "${USER}", "user", "\\ud800"),
)
_ITEMS_EACH: Final = 4


def run(plan: Plan) -> list[Result]:
    """Ask as each user for what another has stored."""
    result, chance = Result(fault="cross-scope attempt"), plan.random("scopes")
    with opened(prepare(plan.folder / "scopes", "simple")) as store:
        owned = {user: _fill(store, user, number) for number, user in enumerate(_USERS)}
        result.acknowledged = sum(map(len, owned.values()))
        for attempt in range(plan.extent(short=600, full=20_000)):
            asker, owner = chance.sample(_USERS, 2)
            result.tried += 1
            foreign = _reached(store, asker, owned, owner, chance)
            if foreign:
                result.fail("leaked", f"seed {plan.seed}, attempt {attempt}: {asker!r} reached {foreign[:2]}")
        left = {item.id for item in store.scan()}
        for user, ids in owned.items():
            if not ids <= left:
                result.fail("lost", f"{user!r}: {len(ids - left)} items were deleted by another user", len(ids - left))
    return [result]


def _fill(store: CollectionMemory, user: str, number: int) -> set[str]:
    items = [
        MemoryItem(
            id=f"{number}-{n}",
            content_summary=f"a secret of one user, number {n}, w{number}x{n}",
            scope=Scope(user=user),
            embedding=EMBEDDER.vector(f"a secret w{number}x{n}"),
        )
        for n in range(_ITEMS_EACH)
    ]
    store.collection.add(items, unique=Unique.ID)
    return {item.id for item in items}


def _reached(store: CollectionMemory, asker: str, owned: dict[str, set[str]], owner: str, chance: Random) -> list[str]:
    """Try one way as `asker`; return the ids of items that are not the asker's own."""
    where, target = Filter(scope=Scope(user=asker)), sorted(owned[owner])
    way = chance.randrange(5)
    if way == 0:
        found = [hit.item for hit in store.search(MemoryQuery(text="a secret of one user", limit=50, where=where))]
    elif way == 1:
        vector = EMBEDDER.vector(f"a secret w{list(owned).index(owner)}x0")
        found = [hit.item for hit in store.collection.search(SearchQuery(vector=vector, limit=50, where=where))]
    elif way == 2:
        found = store.recent(200, where)
    elif way == 3:
        found = list(store.scan(where))
    else:
        deleted = store.delete(ids=target, where=where)
        return target if deleted else []
    return [item.id for item in found if item.id not in owned[asker]]
