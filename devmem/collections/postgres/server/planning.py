"""Hints for the server's planner, for the statements of a search.

It takes a range of passages for a ninth of the table, as it does not know the bounds beforehand, and would rather read
and sort whole tables than look a few hundred rows up. Each item has one range, of mostly one passage.
"""

from __future__ import annotations

from typing import Final, LiteralString

from devmem.collections.postgres.database import composed
from devmem.collections.postgres.schema import PASSAGE_BITS

_SETTINGS: Final = {
    "jit": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "enable_material": "off",
    "enable_seqscan": "off",
    # Planning a statement takes longer than looking a few hundred rows up.
    "plan_cache_mode": "force_generic_plan",
}
SEARCH_SETTINGS: Final = "SELECT " + ", ".join(
    f"set_config('{name}', '{value}', true)" for name, value in _SETTINGS.items()
)
"""Statement that has rows looked up one by one until the transaction ends, and nothing compiled."""


def of_store(query: str, store: int) -> LiteralString:
    """Return a statement with the number of the store in it: a plan for any store would be one for all partitions."""
    return composed(query.replace("%(store)s", f"{store:d}"))


def of_item(table: str, columns: str, row: str) -> str:
    """Return the FROM item with the rows of a table that belong to one item, named as the table.

    Args:
        table: a table by passage.
        columns: columns of it.
        row: the item's row, an expression over FROM items before this one.
    """
    # OFFSET keeps the planner from turning it into a join, whose order it would choose.
    return (
        f"LATERAL (SELECT {columns} FROM {table} WHERE {table}.store = %(store)s AND {table}.passage >= {row} << "
        f"{PASSAGE_BITS} AND {table}.passage < ({row} + 1) << {PASSAGE_BITS} OFFSET 0) AS {table}"
    )
